// A whole model in llama.cpp: how fast it reads a prompt and writes tokens, in its own terms.
//
//   peer-llama LIBRARIES MODEL THREADS PROMPT NEW REPETITIONS REPACK(0|1) [DEPTH]
//
// LIBRARIES is the folder of ggml's CPU libraries, "" where they are linked in. One line of JSON for each repetition.
#include "ggml-backend.h"
#include "llama.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void quiet(enum ggml_log_level level, const char *text, void *data) {
    (void)data;
    if (level >= GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static void feed(struct llama_context *context, llama_token *ids, int n, int at_once) {
    for (int i = 0; i < n; i += at_once) {
        int some = n - i < at_once ? n - i : at_once;
        if (llama_decode(context, llama_batch_get_one(ids + i, some))) {
            fprintf(stderr, "llama_decode failed\n");
            exit(1);
        }
    }
}

int main(int argc, char **argv) {
    if (argc < 8) {
        fprintf(stderr, "usage: %s LIBRARIES MODEL THREADS PROMPT NEW REPETITIONS REPACK [DEPTH]\n", argv[0]);
        return 2;
    }
    int threads = atoi(argv[3]), prompt = atoi(argv[4]), new_tokens = atoi(argv[5]);
    int repetitions = atoi(argv[6]), repack = atoi(argv[7]), depth = argc > 8 ? atoi(argv[8]) : 0;
    llama_log_set(quiet, NULL);
    if (*argv[1]) ggml_backend_load_all_from_path(argv[1]);
    llama_backend_init();

    double start = now();
    struct llama_model_params model_params = llama_model_default_params();
    model_params.use_extra_bufts = repack != 0;
    struct llama_model *model = llama_model_load_from_file(argv[2], model_params);
    if (!model) return 1;
    int most = prompt > new_tokens ? prompt : new_tokens;
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = depth + most + 1;
    params.n_batch = params.n_ubatch = 512;
    params.n_threads = params.n_threads_batch = threads;
    struct llama_context *context = llama_init_from_model(model, params);
    if (!context) return 1;

    int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    int all = depth > most ? depth : most;
    llama_token *ids = malloc(sizeof(llama_token) * (all + 1));
    for (int i = 0; i < all; i++) ids[i] = (int)((long)i * 7919 % vocabulary);
    llama_memory_t memory = llama_get_memory(context);
    feed(context, ids, depth, 512);
    if (!depth && repetitions) feed(context, ids, 1, 1);
    printf("{\"load_and_first\": %.6f}\n", now() - start);
    for (int i = 0; i <= repetitions; i++) {
        double times[2] = {0, 0};
        for (int kind = 0; kind < 2; kind++) {
            int n = kind ? new_tokens : prompt;
            llama_memory_seq_rm(memory, 0, depth, -1);
            double begin = now();
            if (n) feed(context, ids, n, kind ? 1 : 512);
            times[kind] = now() - begin;
        }
        // The first does not count: its pages come in.
        if (i) {
            printf("{\"pp\": %.4f, \"tg\": %.4f}\n", times[0] > 0 ? prompt / times[0] : 0,
                   times[1] > 0 ? new_tokens / times[1] : 0);
            fflush(stdout);
        }
    }
    free(ids);
    llama_free(context);
    llama_model_free(model);
    return 0;
}
