/* The device of an exported project: VTA, simulated. `config` of a region has the base 2 logarithms
 * of batch, block, and the elements of the UOP, INP, WGT and ACC scratchpads. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

#include "vta_device.h"

typedef struct loaded {
    const device_region *region;
    vta_program *program;
    vta_device *vta;
    uint8_t *memory;
} loaded;

struct device {
    loaded *regions;
    int count;
};

device *device_open(void)
{
    return calloc(1, sizeof(device));
}

static int prepare(loaded *l)
{
    const device_region *r = l->region;
    vta_fault fault;
    vta_config config;
    if (r->config_count != sizeof config / sizeof(uint32_t)) return 1;
    memcpy(&config, r->config, sizeof config);
    l->program = vta_program_open(&config, r->code, r->code_bytes / 16, &fault);
    if (l->program == NULL) return (int)fault.code;
    if (vta_program_schedule(l->program, NULL, &fault) != VTA_OK) return (int)fault.code;
    l->vta = vta_device_open(&config, 0);
    l->memory = calloc(r->memory_bytes ? r->memory_bytes : 1, 1);
    return l->vta == NULL || l->memory == NULL ? VTA_NO_MEMORY : 0;
}

int device_load(device *d, int index, const device_region *region)
{
    if (index != d->count) return 1;
    loaded *regions = realloc(d->regions, ((size_t)index + 1) * sizeof *regions);
    if (regions == NULL) return VTA_NO_MEMORY;
    d->regions = regions;
    d->count = index + 1;
    memset(&regions[index], 0, sizeof *regions);
    regions[index].region = region;
    return prepare(&regions[index]);
}

int device_run(device *d, int index, const void *const *inputs)
{
    loaded *l = &d->regions[index];
    const device_region *r = l->region;
    vta_fault fault;
    memcpy(l->memory, r->image, r->image_bytes);
    for (size_t i = 0; i < r->input_count; i++)
        memcpy(l->memory + r->inputs[i].address, inputs[i], r->inputs[i].bytes);
    return (int)vta_device_run(l->vta, l->program, l->memory, r->memory_bytes, &fault);
}

int device_wait(device *d, int index, void *const *outputs)
{
    const loaded *l = &d->regions[index];
    for (size_t i = 0; i < l->region->output_count; i++) {
        const device_port port = l->region->outputs[i];
        memcpy(outputs[i], l->memory + port.address, port.bytes);
    }
    return 0;
}

void device_close(device *d)
{
    if (d == NULL) return;
    for (int i = 0; i < d->count; i++) {
        if (d->regions[i].program != NULL) vta_program_close(d->regions[i].program);
        if (d->regions[i].vta != NULL) vta_device_close(d->regions[i].vta);
        free(d->regions[i].memory);
    }
    free(d->regions);
    free(d);
}
