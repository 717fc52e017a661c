/* Runs the model on arrays in files: ./model IN.npy… OUT.npy…, in the order of project.h. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npy.h"
#include "project.h"
#include "sha256.h"

/* Bytes at aligned addresses: C99 has no way to ask for more than a type's own alignment. */
#define BLOB_ROOM ((size_t)PROJECT_BLOB_BYTES + 1 + PROJECT_ALIGN)
/* Arrays of so many bytes would put others out of reach of the usual instructions. */
#ifndef PROJECT_LARGE
#define PROJECT_LARGE 1073741824
#endif
#if PROJECT_BLOB_BYTES > PROJECT_LARGE
static unsigned char *held;

static void release(void)
{
    free(held);
}

static unsigned char *blob_room(void)
{
    held = malloc(BLOB_ROOM);
    atexit(release);
    return held;
}
#else
static unsigned char *blob_room(void)
{
    static unsigned char blob[BLOB_ROOM];
    return blob;
}
#endif
static unsigned char arena[PROJECT_ARENA_BYTES + PROJECT_ALIGN];
static unsigned char ports[PROJECT_PORT_BYTES + PROJECT_ALIGN];

static unsigned char *aligned(unsigned char *bytes)
{
    return bytes + (PROJECT_ALIGN - (uintptr_t)bytes % PROJECT_ALIGN) % PROJECT_ALIGN;
}

#ifdef PROJECT_BLOB
/* Weights and programs, from a file beside the executable; NULL where there is none. */
static const unsigned char *find_blob(const char *program)
{
    unsigned char *const room = blob_room(), *const bytes = aligned(room);
    char path[4096], digest[65];
    const char *slash = strrchr(program, '/');
    const int folder = slash == NULL ? 0 : (int)(slash - program) + 1;
    if (snprintf(path, sizeof path, "%.*s%s", folder, program, PROJECT_BLOB) >= (int)sizeof path)
        return NULL;
    if (room == NULL) {
        fprintf(stderr, "%s: expected memory for %lu bytes, found none\n", path,
                (unsigned long)PROJECT_BLOB_BYTES);
        return NULL;
    }
    FILE *file = fopen(path, "rb");
    const size_t count = file == NULL ? 0 : fread(bytes, 1, PROJECT_BLOB_BYTES + 1, file);
    if (file != NULL) fclose(file);
    if (count != PROJECT_BLOB_BYTES) {
        fprintf(stderr, "%s: expected a file of %lu bytes, found %s\n", path,
                (unsigned long)PROJECT_BLOB_BYTES, file == NULL ? "none" : "another");
        return NULL;
    }
    sha256(bytes, count, digest);
    if (strcmp(digest, PROJECT_BLOB_SHA256) == 0) return bytes;
    fprintf(stderr, "%s: expected the file that was exported with this program, digest %.16s, "
            "found %.16s\n", path, PROJECT_BLOB_SHA256, digest);
    return NULL;
}
#else
/* Weights and programs as they are compiled in, at an address that the model wants. */
static const unsigned char *find_blob(const char *program)
{
    (void)program;
    if ((uintptr_t)PROJECT_BYTES % PROJECT_ALIGN == 0) return PROJECT_BYTES;
    return memcpy(aligned(blob_room()), PROJECT_BYTES, PROJECT_BLOB_BYTES);
}
#endif

static int64_t shapes[PROJECT_OUTPUTS + 1][PROJECT_RANK];

/* Writes an output; of one whose shape is open, as much as there is. */
static int write_output(const char *path, int index, const void *data)
{
    npy_type type = project_outputs[index];
    size_t shape[PROJECT_RANK];
    if (!project_open[index]) return npy_write(path, &type, data);
    for (size_t d = 0; d < type.rank; d++) {
        shape[d] = (size_t)shapes[index][d];
        type.bytes = type.shape[d] == 0 ? 0 : type.bytes / type.shape[d] * shape[d];
    }
    type.shape = shape;
    return npy_write(path, &type, data);
}

int main(int count, char **arguments)
{
    const void *in[PROJECT_INPUTS + 1];
    void *out[PROJECT_OUTPUTS + 1];
    unsigned char *next = aligned(ports);
    if (count != 1 + PROJECT_INPUTS + PROJECT_OUTPUTS) {
        fprintf(stderr, "usage: %s%s\n", arguments[0], PROJECT_USAGE);
        return 2;
    }
    const unsigned char *const bytes = find_blob(arguments[0]);
    if (bytes == NULL) return 1;
    for (int i = 0; i < PROJECT_INPUTS; next += PROJECT_ROOM(project_inputs[i].bytes), i++) {
        if (npy_read(arguments[1 + i], &project_inputs[i], next)) return 1;
        in[i] = next;
    }
    for (int i = 0; i < PROJECT_OUTPUTS; next += PROJECT_ROOM(project_outputs[i].bytes), i++)
        out[i] = next;
    const int code = project_run(in, out, shapes, bytes, aligned(arena));
    if (code == PROJECT_OUTSIDE)
        fprintf(stderr, "%s: an index leads outside of its array\n", arguments[0]);
    else if (code == PROJECT_UNFIT)
        fprintf(stderr, "%s: sizes do not fit each other\n", arguments[0]);
    else if (code != 0)
        fprintf(stderr, "%s: the device failed with code %d\n", arguments[0], code);
    if (code != 0) return 1;
    for (int i = 0; i < PROJECT_OUTPUTS; i++)
        if (write_output(arguments[1 + PROJECT_INPUTS + i], i, out[i])) return 1;
    return 0;
}
