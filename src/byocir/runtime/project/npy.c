#include "npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 4096 }; /* header; numpy writes about 120 bytes */

static int wrong(const char *path, const npy_type *type, const char *found)
{
    fprintf(stderr, "%s: expected %s of shape (", path, type->descr);
    for (size_t i = 0; i < type->rank; i++)
        fprintf(stderr, "%lu%s", (unsigned long)type->shape[i], i + 1 < type->rank ? ", " : "");
    fprintf(stderr, ") for %s, found %s\n", type->name, found);
    return 1;
}

/* The text behind a key of the header, or NULL. */
static const char *value_of(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    if (at == NULL) return NULL;
    at += strlen(key);
    while (*at == ' ' || *at == ':') at++;
    return at;
}

/* Whether the shape that begins here, "(1, 3)", is the type's. */
static int has_shape(const char *text, const npy_type *type)
{
    if (*text++ != '(') return 0;
    for (size_t i = 0; i < type->rank; i++) {
        char *end;
        const unsigned long size = strtoul(text, &end, 10);
        if (end == text || size != type->shape[i]) return 0;
        for (text = end; *text == ',' || *text == ' ' || *text == 'L';) text++;
    }
    return *text == ')';
}

/* The header's length from the 10 or 12 bytes before it, or 0. */
static size_t header_length(FILE *file)
{
    unsigned char start[12];
    if (fread(start, 1, 10, file) != 10 || memcmp(start, "\x93NUMPY", 6) != 0) return 0;
    size_t length = start[8] | (size_t)start[9] << 8;
    if (start[6] != 1) {
        if (fread(start + 10, 1, 2, file) != 2) return 0;
        length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    }
    return length;
}

static int read_array(FILE *file, const char *path, const npy_type *type, void *data)
{
    char header[LONGEST + 1];
    const size_t length = header_length(file);
    if (length == 0 || length > LONGEST || fread(header, 1, length, file) != length)
        return wrong(path, type, "no .npy file");
    header[length] = '\0';
    const char *descr = value_of(header, "'descr'");
    const char *order = value_of(header, "'fortran_order'");
    const char *shape = value_of(header, "'shape'");
    if (descr == NULL || order == NULL || shape == NULL) return wrong(path, type, "no .npy file");
    const size_t letters = strlen(type->descr);
    if (strncmp(descr + 1, type->descr, letters) != 0 || descr[letters + 1] != descr[0])
        return wrong(path, type, "another type");
    if (strncmp(order, "False", 5) != 0) return wrong(path, type, "column-major order");
    if (!has_shape(shape, type)) return wrong(path, type, "another shape");
    if (fread(data, 1, type->bytes, file) != type->bytes || fgetc(file) != EOF)
        return wrong(path, type, "another number of bytes");
    return 0;
}

int npy_read(const char *path, const npy_type *type, void *data)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) return wrong(path, type, "no file that can be read");
    const int failed = read_array(file, path, type, data);
    fclose(file);
    return failed;
}

int npy_write(const char *path, const npy_type *type, const void *data)
{
    char header[LONGEST];
    int used = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                        type->descr);
    for (size_t i = 0; i < type->rank && used < LONGEST - 64; i++)
        used += snprintf(header + used, sizeof header - (size_t)used, "%lu,%s",
                         (unsigned long)type->shape[i], i + 1 < type->rank ? " " : "");
    used += snprintf(header + used, sizeof header - (size_t)used, "), }");
    while ((used + 11) % 64 != 0) header[used++] = ' ';
    header[used++] = '\n';
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        fprintf(stderr, "%s: expected a file that can be written for %s\n", path, type->name);
        return 1;
    }
    const unsigned char start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0,
                                     (unsigned char)(used & 255), (unsigned char)(used >> 8)};
    const size_t written = fwrite(start, 1, 10, file) + fwrite(header, 1, (size_t)used, file) +
                           fwrite(data, 1, type->bytes, file);
    const int failed = fclose(file) != 0 || written != 10 + (size_t)used + type->bytes;
    if (failed) fprintf(stderr, "%s: expected room for %s\n", path, type->name);
    return failed;
}
