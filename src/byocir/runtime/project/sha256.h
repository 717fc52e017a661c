/* SHA-256 (FIPS 180-4). */
#ifndef SHA256_H
#define SHA256_H

#include <stddef.h>

/* Writes the 64 hexadecimal digits of the digest of some bytes, and a final zero. */
void sha256(const unsigned char *bytes, size_t count, char digits[65]);

#endif
