/* Arrays in numpy's .npy files: row-major, of the type and shape that is expected. */
#ifndef NPY_H
#define NPY_H

#include <stddef.h>

typedef struct npy_type {
    const char *name;  /* of the input or output */
    const char *descr; /* numpy's: "<f4" */
    size_t rank;
    const size_t *shape;
    size_t bytes;
} npy_type;

/* Both print what is wrong to stderr; they give 0, or 1 on failure. */
int npy_read(const char *path, const npy_type *type, void *data);
int npy_write(const char *path, const npy_type *type, const void *data);

#endif
