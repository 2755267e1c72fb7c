// What every harness here understands, so that one driver (run.py) can take turns between them.
//
// A harness is started with TYPE OUT IN COUNT WEIGHTS ACTIVATIONS THREADS [SETTING]: COUNT matrices [OUT, IN] of an
// element type, one after the other in the file WEIGHTS, and rows of IN f32 in the file ACTIVATIONS. It loads them,
// says `ready` and whatever else is worth knowing on one line, and then obeys lines on standard input:
//
//   matmul M CALLS GROUPS   GROUPS times: CALLS products of M rows with the next matrices in turn
//   decode CALLS GROUPS     likewise, each matrix widened to f32
//   write matmul M PATH     the product with the first matrix, as raw f32
//   write decode PATH       the first matrix, widened, as raw f32
//
// and answers each with one line: the nanoseconds that one call took on average, for each group; or `done`.
// What it cannot do it answers with `none`.
#ifndef PROTOCOL_H
#define PROTOCOL_H

#define _GNU_SOURCE
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static void fail(const char * what, ...) {
    va_list args;
    va_start(args, what);
    vfprintf(stderr, what, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static void * allocate(size_t bytes) {
    void * memory = NULL;
    if (posix_memalign(&memory, 4096, bytes) != 0) fail("no memory for %zu bytes", bytes);
    return memory;
}

static void read_file(FILE * file, const char * path, void * into, size_t bytes) {
    if (fread(into, 1, bytes, file) != bytes) fail("%s: shorter than it should be", path);
}

static FILE * open_file(const char * path, const char * mode) {
    FILE * file = fopen(path, mode);
    if (file == NULL) fail("%s: cannot open it", path);
    return file;
}

static void write_file(const char * path, const void * data, size_t bytes) {
    FILE * file = open_file(path, "wb");
    if (fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) fail("%s: cannot write it", path);
}

// Outputs of a widening go to several buffers in turn, larger together than any cache here: what is widened is
// written to memory, as it would be for a whole tensor.
#define OUTPUTS 8

#endif
