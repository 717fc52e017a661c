/* The device of an exported project: VTA, simulated. `config` of a region is a `vta_config`: the base
 * 2 logarithms of batch, block, and the elements of the UOP, INP, WGT and ACC scratchpads, and what
 * the machine has. The device is of the configuration DEVICE_VTA_CONFIG where that is defined, eight
 * numbers with commas, else of that of the first region; it refuses regions for another one. */
#include "device.h"

#include <stdio.h>
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
    vta_config config;
    int is_known;
};

device *device_open(void)
{
    device *d = calloc(1, sizeof(device));
#ifdef DEVICE_VTA_CONFIG
    const vta_config own = {DEVICE_VTA_CONFIG};
    if (d != NULL) {
        d->config = own;
        d->is_known = 1;
    }
#endif
    return d;
}

static void show(const char *what, const vta_config *c)
{
    fprintf(stderr, "%s %u, %u, %u, %u, %u, %u, %u, %u", what, c->log_batch, c->log_block,
            c->log_uop_depth, c->log_inp_depth, c->log_wgt_depth, c->log_acc_depth, c->alu_mul,
            c->acc_8bit);
}

/* Refuses a region that was compiled for another VTA. */
static int check_config(device *d, const vta_config *config)
{
    if (!d->is_known) {
        d->config = *config;
        d->is_known = 1;
    }
    if (memcmp(&d->config, config, sizeof *config) == 0) return 0;
    show("error[V208]: expected a region for VTA", &d->config);
    show(", found one for", config);
    fputs("\n", stderr);
    return VTA_OTHER_CONFIG;
}

static int prepare(device *d, loaded *l)
{
    const device_region *r = l->region;
    vta_fault fault;
    vta_config config;
    if (r->config_count != sizeof config / sizeof(uint32_t)) return 1;
    memcpy(&config, r->config, sizeof config);
    const int other = check_config(d, &config);
    if (other != 0) return other;
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
    return prepare(d, &regions[index]);
}

int device_run(device *d, int index, const void *const *inputs)
{
    loaded *l = &d->regions[index];
    const device_region *r = l->region;
    vta_fault fault;
    memcpy(l->memory, r->image, r->image_bytes);
    for (size_t i = 0; i < r->input_count; i++)
        memcpy(l->memory + r->inputs[i].address, inputs[i], (size_t)r->inputs[i].bytes);
    return (int)vta_device_run(l->vta, l->program, l->memory, r->memory_bytes, &fault);
}

int device_wait(device *d, int index, void *const *outputs)
{
    const loaded *l = &d->regions[index];
    for (size_t i = 0; i < l->region->output_count; i++) {
        const device_port port = l->region->outputs[i];
        memcpy(outputs[i], l->memory + port.address, (size_t)port.bytes);
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
