// Reads files the plainest way there is: maps them and takes the exclusive or of all their bytes, an equal part of each
// file on each thread. What it takes, as a whole process, is what nothing that reads all of these files can go below.
//
//   mapped THREADS FILE...
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct part {
    const char * from;
    size_t bytes;
    int found;
};

static void * fold(void * argument) {
    struct part * part = argument;
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (size_t at = 0; at + 128 <= part->bytes; at += 128) {
        const __m256i * line = (const __m256i *) (part->from + at);
        a = _mm256_xor_si256(a, _mm256_loadu_si256(line));
        b = _mm256_xor_si256(b, _mm256_loadu_si256(line + 1));
        c = _mm256_xor_si256(c, _mm256_loadu_si256(line + 2));
        d = _mm256_xor_si256(d, _mm256_loadu_si256(line + 3));
    }
    a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
    part->found = _mm256_extract_epi32(a, 0);
    return NULL;
}

static void fail(const char * what) {
    perror(what);
    exit(1);
}

int main(int count, char ** arguments) {
    int threads = count > 2 ? atoi(arguments[1]) : 0;
    if (threads < 1 || threads > 64) {
        fprintf(stderr, "usage: mapped THREADS FILE...\n");
        return 2;
    }
    int all = 0;
    for (int i = 2; i < count; i++) {
        int file = open(arguments[i], O_RDONLY);
        struct stat about;
        if (file < 0 || fstat(file, &about) != 0) fail(arguments[i]);
        size_t bytes = (size_t) about.st_size;
        const char * from = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
        if (from == MAP_FAILED) fail(arguments[i]);
        close(file);
        pthread_t running[64];
        struct part parts[64];
        for (int t = 0; t < threads; t++) {
            size_t begin = bytes / (size_t) threads * (size_t) t;
            parts[t] = (struct part) {from + begin, bytes / (size_t) threads, 0};
            if (pthread_create(&running[t], NULL, fold, &parts[t]) != 0) fail("pthread_create");
        }
        for (int t = 0; t < threads; t++) {
            pthread_join(running[t], NULL);
            all ^= parts[t].found;
        }
    }
    printf("%d\n", all);
    return 0;
}
