// What this machine can do at most, behind lines like those of protocol.h, so that it is measured in the same run
// as the products whose share of it is told.
//
//   limits THREADS   then: read|stream|copy|fma|int8 GROUPS
//
// read   bytes a nanosecond (GB/s) out of 512 MiB on huge pages, an eighth each time, by four streams a thread
// stream the same by one stream a thread
// copy   bytes copied a nanosecond within such memory, by whichever is fastest of memcpy, vector stores, and vector
//        stores past the caches
// fma    f32 operations a nanosecond (GFLOP/s) of 256-bit multiply-adds on registers
// int8   operations a nanosecond of the way from 8-bit products to 32-bit sums without VNNI: vpmaddubsw, vpmaddwd,
//        vpaddd
#include "protocol.h"

#include <immintrin.h>
#include <omp.h>
#include <sys/mman.h>

#define MEMORY ((size_t) 512 << 20)
#define PIECE (MEMORY / 8)
#define ROUNDS 2000000

static char * huge(size_t bytes) {
    void * memory = NULL;
    if (posix_memalign(&memory, 2 << 20, bytes) != 0) fail("no memory");
    madvise(memory, bytes, MADV_HUGEPAGE);
    memset(memory, 1, bytes);
    return memory;
}

static volatile int sink;

// Exclusive or of all bytes, so many places at once: hardware follows several rising addresses, and some machines
// give more to four than to one. No prefetching: where it helps, the hardware has done it already.
static void fold(const char * from, size_t bytes, int places) {
    __m256i a[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    size_t part = bytes / (size_t) places;
    for (size_t at = 0; at < part; at += 128) {
        for (int i = 0; i < places; i++) {
            const __m256i * line = (const __m256i *) (from + part * (size_t) i + at);
            a[0] = _mm256_xor_si256(a[0], _mm256_load_si256(line));
            a[1] = _mm256_xor_si256(a[1], _mm256_load_si256(line + 1));
            a[2] = _mm256_xor_si256(a[2], _mm256_load_si256(line + 2));
            a[3] = _mm256_xor_si256(a[3], _mm256_load_si256(line + 3));
        }
    }
    a[0] = _mm256_xor_si256(_mm256_xor_si256(a[0], a[1]), _mm256_xor_si256(a[2], a[3]));
    sink = _mm256_extract_epi32(a[0], 0);
}

// Where the next measurement begins: a piece is larger than the caches and short enough not to be interrupted often.
static char * next_piece(char * memory) {
    static size_t next = 0;
    next = (next + PIECE) % MEMORY;
    return memory + next;
}

// Threads that slept are not to be waited for within what is timed.
static void wake(int threads) {
    #pragma omp parallel num_threads(threads)
    sink = omp_get_thread_num();
}

static double read_rate(const char * piece, int threads, int places) {
    double start = now_ns();
    #pragma omp parallel num_threads(threads)
    {
        size_t part = PIECE / (size_t) threads;
        fold(piece + part * (size_t) omp_get_thread_num(), part, places);
    }
    return (double) PIECE / (now_ns() - start);
}

static void copy_stores(char * to, const char * from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 64) {
        __m256i a = _mm256_load_si256((const __m256i *) (from + at));
        __m256i b = _mm256_load_si256((const __m256i *) (from + at + 32));
        _mm256_store_si256((__m256i *) (to + at), a);
        _mm256_store_si256((__m256i *) (to + at + 32), b);
        __asm__ volatile("" ::: "memory"); // or it becomes a call of memcpy
    }
}

static void copy_past_caches(char * to, const char * from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 64) {
        __m256i a = _mm256_load_si256((const __m256i *) (from + at));
        __m256i b = _mm256_load_si256((const __m256i *) (from + at + 32));
        _mm256_stream_si256((__m256i *) (to + at), a);
        _mm256_stream_si256((__m256i *) (to + at + 32), b);
    }
    _mm_sfence();
}

static void copy_library(char * to, const char * from, size_t bytes) {
    memcpy(to, from, bytes);
}

static double copy_rate_by(void (*copy)(char *, const char *, size_t), char * piece, int threads) {
    size_t half = PIECE / 2;
    double start = now_ns();
    #pragma omp parallel num_threads(threads)
    {
        size_t part = half / (size_t) threads, at = part * (size_t) omp_get_thread_num();
        copy(piece + half + at, piece + at, part);
    }
    return (double) half / (now_ns() - start);
}

static double copy_rate(char * memory, int threads) {
    double best = copy_rate_by(copy_library, next_piece(memory), threads);
    double other = copy_rate_by(copy_stores, next_piece(memory), threads);
    best = other > best ? other : best;
    other = copy_rate_by(copy_past_caches, next_piece(memory), threads);
    return other > best ? other : best;
}

// Written as instructions: a compiler that sees the arithmetic finds shorter ways. Twelve independent chains, since
// two a cycle at a latency of four or five want ten.
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

static void multiply_add(void) {
    __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
#define DECLARE(I) __m256 a##I = _mm256_set1_ps(I);
#define STEP(I) __asm__ volatile("vfmadd132ps %2, %1, %0" : "+x"(a##I) : "x"(y), "x"(x));
    TWELVE(DECLARE)
    for (long round = 0; round < ROUNDS; round++) {
        TWELVE(STEP)
    }
#undef DECLARE
#undef STEP
}

static void multiply_bytes(void) {
    __m256i x = _mm256_set1_epi8(3), w = _mm256_set1_epi8(5), ones = _mm256_set1_epi16(1), pairs;
#define DECLARE(I) __m256i a##I = _mm256_set1_epi32(I);
#define STEP(I)                                                                                                  \
    __asm__ volatile("vpmaddubsw %3, %2, %1\n\tvpmaddwd %4, %1, %1\n\tvpaddd %1, %0, %0"                         \
                     : "+x"(a##I), "=&x"(pairs) : "x"(w), "x"(x), "x"(ones));
    TWELVE(DECLARE)
    for (long round = 0; round < ROUNDS; round++) {
        TWELVE(STEP)
    }
#undef DECLARE
#undef STEP
}

static double rate_of(void (*loop)(void), double operations, int threads) {
    double start = now_ns();
    #pragma omp parallel num_threads(threads)
    loop();
    return operations * ROUNDS * threads / (now_ns() - start);
}

int main(int argc, char ** argv) {
    if (argc != 2) fail("usage: limits THREADS");
    int threads = atoi(argv[1]);
    char * memory = huge(MEMORY);
    printf("ready limits\n");
    fflush(stdout);
    char line[256], what[16];
    int groups;
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "%15s %d", what, &groups) != 2) fail("not understood: %s", line);
        for (int i = 0; i < groups; i++) {
            wake(threads);
            double rate = strcmp(what, "read") == 0 ? read_rate(next_piece(memory), threads, 4)
                        : strcmp(what, "stream") == 0 ? read_rate(next_piece(memory), threads, 1)
                        : strcmp(what, "copy") == 0 ? copy_rate(memory, threads)
                        : strcmp(what, "fma") == 0  ? rate_of(multiply_add, 12 * 8 * 2, threads)
                                                    : rate_of(multiply_bytes, 12 * 32 * 2, threads);
            printf("%.3f ", rate);
        }
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
