/* What an accelerator must do for a model: five functions. An exported project comes with one that
 * simulates the accelerator; to use real hardware, write these and link them in its place.
 *
 * A region is a piece of the model as the accelerator's own program. Its inputs and outputs lie at
 * fixed places in the device's memory, in the layout that the program works on. */
#ifndef DEVICE_H
#define DEVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct device device;

/* An input or output: where it lies in the device's memory. */
typedef struct device_port {
    uint64_t address, bytes;
} device_port;

typedef struct device_region {
    const char *name;
    const uint8_t *code; /* instructions */
    size_t code_bytes;
    const uint8_t *image; /* the start of the device's memory: constants */
    size_t image_bytes;
    size_t memory_bytes; /* all of it; what is behind the image need not be set */
    const uint32_t *config; /* what the code was made for; the target's page says which numbers */
    size_t config_count;
    const device_port *inputs, *outputs;
    size_t input_count, output_count;
} device_region;

/* A device, or NULL. */
device *device_open(void);

/* Gets a region ready. It is called once for each, in order of `index` from 0, before any runs;
 * `region` stays where it is until the device is closed. Gives 0, or another number on failure. */
int device_load(device *d, int index, const device_region *region);

/* Starts a region on these inputs, in the order of its ports; they stay until `device_wait`. */
int device_run(device *d, int index, const void *const *inputs);

/* Waits until the region that runs is done and copies its outputs. */
int device_wait(device *d, int index, void *const *outputs);

void device_close(device *d);

#ifdef __cplusplus
}
#endif

#endif
