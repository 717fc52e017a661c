/* Runs cases from files, each with scratchpads of its own, and writes FILE.out: code, instruction,
 * and the image. Built with sanitizers, which end the process at the first fault of the core. */
#include <stdio.h>
#include <stdlib.h>

#include "vta_device.h"

typedef struct header {
    vta_config config;
    uint32_t checking, count, bytes;
} header;

/* The result of the run is in `fault`; arrays are as long as they must be and no longer. */
static void run(const header *h, const uint8_t *insns, uint8_t *dram, vta_fault *fault)
{
    vta_program *program = vta_program_open(&h->config, insns, h->count, fault);
    if (program == NULL) return;
    if (vta_program_schedule(program, NULL, fault) == VTA_OK) {
        vta_device *device = vta_device_open(&h->config, (int)h->checking);
        if (device == NULL) abort();
        vta_device_run(device, program, dram, h->bytes, fault);
        vta_device_close(device);
    }
    vta_program_close(program);
}

static void *read_bytes(FILE *file, size_t count)
{
    void *bytes = malloc(count ? count : 1);
    if (bytes == NULL || fread(bytes, 1, count, file) != count) abort();
    return bytes;
}

static void run_file(const char *name)
{
    char out[4096];
    vta_fault fault;
    FILE *file = fopen(name, "rb");
    if (file == NULL) abort();
    header *h = read_bytes(file, sizeof *h);
    uint8_t *insns = read_bytes(file, (size_t)16 * h->count), *dram = read_bytes(file, h->bytes);
    fclose(file);
    run(h, insns, dram, &fault);
    snprintf(out, sizeof out, "%s.out", name);
    file = fopen(out, "wb");
    if (file == NULL) abort();
    fwrite(&fault, sizeof fault, 1, file);
    fwrite(dram, 1, h->bytes, file);
    fclose(file);
    free(dram);
    free(insns);
    free(h);
}

int main(int count, char **names)
{
    for (int i = 1; i < count; i++) run_file(names[i]);
    return 0;
}
