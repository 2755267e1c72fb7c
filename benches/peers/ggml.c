// llama.cpp's CPU path behind the lines of protocol.h. Settings: `plain`, or `repack` for the layouts that its CPU
// backend rewrites weights into where it has one for the type.
//
//   peer-ggml make TYPE OUT IN COUNT SEED PATH   writes the weights: gaussian numbers, quantised by ggml itself
//   GGML_PLUGIN=.../libggml-cpu-haswell.so       a prebuilt CPU backend in place of the one linked
#include "protocol.h"

#include "ggml-backend.h"
#include "ggml.h"

#include <dlfcn.h>
#include <math.h>
#include <strings.h>

// ---- weights -------------------------------------------------------------------------------------------------

static enum ggml_type type_named(const char * name) {
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        const char * known = ggml_type_name((enum ggml_type) t);
        if (known != NULL && ggml_blck_size((enum ggml_type) t) > 0 && strcasecmp(known, name) == 0) {
            return (enum ggml_type) t;
        }
    }
    fail("%s: ggml has no such type", name);
    return GGML_TYPE_COUNT;
}

static double uniform(uint64_t * state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return ((double) (*state >> 11) + 0.5) / 9007199254740992.0;
}

static void quantise(enum ggml_type type, const float * from, void * to, int64_t rows, int64_t cols) {
    const struct ggml_type_traits * traits = ggml_get_type_traits(type);
    if (type == GGML_TYPE_Q8_1 || type == GGML_TYPE_Q8_K) { // stored by nobody, so not offered by quantize_chunk
        if (traits->from_float_ref == NULL) fail("ggml's base does not quantise to %s", traits->type_name);
        traits->from_float_ref(from, to, rows * cols);
        return;
    }
    float * importance = allocate((size_t) cols * sizeof(float));
    for (int64_t i = 0; i < cols; i++) importance[i] = 1.0f;
    bool wanted = ggml_quantize_requires_imatrix(type);
    ggml_quantize_chunk(type, from, to, 0, rows, cols, wanted ? importance : NULL);
    free(importance);
}

// How many rows of a matrix are quantised; the others repeat them. The search for codes of the smallest types takes
// minutes a matrix, and time does not depend on which they are.
static int64_t different_rows(enum ggml_type type, int64_t rows) {
    bool slow = strncmp(ggml_type_name(type), "iq", 2) == 0 && ggml_type_size(type) < 4 * ggml_blck_size(type) / 8;
    return slow && rows > 32 ? 32 : rows;
}

static int make(char ** arg) {
    enum ggml_type type = type_named(arg[0]);
    int64_t rows = atoll(arg[1]), cols = atoll(arg[2]), count = atoll(arg[3]);
    uint64_t state = strtoull(arg[4], NULL, 10) * 0x9E3779B97F4A7C15ull + 1;
    size_t row = ggml_row_size(type, cols), bytes = row * (size_t) rows;
    int64_t different = different_rows(type, rows);
    float * numbers = allocate((size_t) (different * cols) * sizeof(float));
    char * stored = allocate(bytes);
    for (int64_t i = 0; i < different * cols; i++) {
        double radius = sqrt(-2.0 * log(uniform(&state)));
        numbers[i] = (float) (radius * cos(6.283185307179586 * uniform(&state)));
    }
    quantise(type, numbers, stored, different, cols);
    for (int64_t i = different; i < rows; i++) {
        memcpy(stored + row * (size_t) i, stored + row * (size_t) (i % different), row);
    }
    FILE * file = open_file(arg[5], "wb");
    for (int64_t i = 0; i < count; i++) {
        if (fwrite(stored, 1, bytes, file) != bytes) fail("%s: cannot write it", arg[5]);
    }
    if (fclose(file) != 0) fail("%s: cannot write it", arg[5]);
    return 0;
}

// ---- products ------------------------------------------------------------------------------------------------

struct work {
    enum ggml_type type;
    int64_t out, in;
    int count, threads;
    ggml_backend_t backend;
    ggml_backend_dev_t device;
    ggml_backend_buffer_type_t place;
    struct ggml_context * tensors;
    struct ggml_tensor ** weights;
    float * activations; // for `rows` rows
    int64_t rows;
    struct ggml_context * graphs;
    ggml_backend_buffer_t scratch; // the activations in ggml's hands, and one output
    struct ggml_tensor ** products;
    int64_t products_rows;
    int next;
};

static void start_backend(struct work * w, const char * setting) {
    const char * plugin = getenv("GGML_PLUGIN");
    ggml_backend_reg_t reg = plugin != NULL ? ggml_backend_load(plugin) : ggml_backend_reg_by_name("CPU");
    if (reg == NULL) fail("no CPU backend: %s", plugin != NULL ? plugin : "none is linked");
    w->device = ggml_backend_reg_dev_get(reg, 0);
    w->backend = ggml_backend_dev_init(w->device, NULL);
    ggml_backend_set_n_threads_t set_threads =
        (ggml_backend_set_n_threads_t) ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    set_threads(w->backend, w->threads);
    w->place = ggml_backend_dev_buffer_type(w->device);
    if (strcmp(setting, "repack") != 0) return;
    ggml_backend_dev_get_extra_bufts_t extra =
        (ggml_backend_dev_get_extra_bufts_t) ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t * list = extra != NULL ? extra(w->device) : NULL;
    while (list != NULL && *list != NULL && strcmp(ggml_backend_buft_name(*list), "CPU_REPACK") != 0) list++;
    if (list == NULL || *list == NULL) {
        printf("none: this build does not repack\n");
        exit(0);
    }
    w->place = *list;
}

static struct ggml_context * context(size_t tensors) {
    struct ggml_init_params params = {
        .mem_size = tensors * ggml_tensor_overhead() + 4 * ggml_graph_overhead_custom(tensors, false),
        .mem_buffer = NULL,
        .no_alloc = true,
    };
    return ggml_init(params);
}

// Whether the backend multiplies by a weight that lies in the chosen kind of buffer: the question llama.cpp asks.
static bool multiplies(struct work * w) {
    ggml_backend_buffer_t nothing = ggml_backend_buft_alloc_buffer(w->place, 0);
    struct ggml_context * ctx = context(8);
    struct ggml_tensor * weight = ggml_new_tensor_2d(ctx, w->type, w->in, w->out);
    struct ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, w->in, 512);
    weight->buffer = nothing;
    bool answer = ggml_backend_dev_supports_op(w->device, ggml_mul_mat(ctx, weight, x));
    ggml_free(ctx);
    return answer;
}

static void load_weights(struct work * w, const char * path) {
    w->tensors = context((size_t) w->count + 8);
    w->weights = allocate((size_t) w->count * sizeof(struct ggml_tensor *));
    for (int i = 0; i < w->count; i++) w->weights[i] = ggml_new_tensor_2d(w->tensors, w->type, w->in, w->out);
    size_t align = ggml_backend_buft_get_alignment(w->place);
    size_t each = ggml_backend_buft_get_alloc_size(w->place, w->weights[0]);
    each = (each + align - 1) / align * align;
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(w->place, each * (size_t) w->count);
    if (buffer == NULL) fail("no memory for the weights");
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    char * base = ggml_backend_buffer_get_base(buffer);
    size_t bytes = ggml_nbytes(w->weights[0]);
    void * stored = allocate(bytes);
    FILE * file = open_file(path, "rb");
    for (int i = 0; i < w->count; i++) {
        ggml_backend_tensor_alloc(buffer, w->weights[i], base + each * (size_t) i);
        read_file(file, path, stored, bytes);
        ggml_backend_tensor_set(w->weights[i], stored, 0, bytes);
    }
    fclose(file);
    free(stored);
}

static void load_activations(struct work * w, const char * path) {
    FILE * file = open_file(path, "rb");
    fseek(file, 0, SEEK_END);
    w->rows = ftell(file) / (int64_t) sizeof(float) / w->in;
    rewind(file);
    size_t bytes = (size_t) (w->rows * w->in) * sizeof(float);
    w->activations = allocate(bytes);
    read_file(file, path, w->activations, bytes);
    fclose(file);
}

// One product for each matrix, all of the same activations into the same output: nobody reads it, and a forward
// pass does not spread its outputs over fresh memory either.
static void prepare_products(struct work * w, int64_t rows) {
    if (rows == w->products_rows) return;
    if (rows > w->rows) fail("%lld rows are more than the activations have", (long long) rows);
    if (w->graphs != NULL) {
        ggml_free(w->graphs);
        ggml_backend_buffer_free(w->scratch);
        free(w->products);
    }
    w->graphs = context((size_t) w->count + 8);
    w->products = allocate((size_t) w->count * sizeof(struct ggml_tensor *));
    struct ggml_tensor * x = ggml_new_tensor_2d(w->graphs, GGML_TYPE_F32, w->in, rows);
    for (int i = 0; i < w->count; i++) w->products[i] = ggml_mul_mat(w->graphs, w->weights[i], x);
    size_t x_bytes = (ggml_nbytes(x) + 4095) / 4096 * 4096;
    ggml_backend_buffer_type_t heap = ggml_backend_dev_buffer_type(w->device);
    w->scratch = ggml_backend_buft_alloc_buffer(heap, x_bytes + ggml_nbytes(w->products[0]));
    char * base = ggml_backend_buffer_get_base(w->scratch);
    ggml_backend_tensor_alloc(w->scratch, x, base);
    ggml_backend_tensor_set(x, w->activations, 0, ggml_nbytes(x));
    for (int i = 0; i < w->count; i++) ggml_backend_tensor_alloc(w->scratch, w->products[i], base + x_bytes);
    w->products_rows = rows;
}

// Several products are one graph, as a layer's are, so that threads are woken once for all of them.
static double time_products(struct work * w, int calls) {
    size_t nodes = 2 * (size_t) calls + 8; // weights and activations count as well
    struct ggml_context * ctx = context(nodes);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, nodes, false);
    for (int i = 0; i < calls; i++) {
        ggml_build_forward_expand(graph, w->products[w->next]);
        w->next = (w->next + 1) % w->count;
    }
    double start = now_ns();
    enum ggml_status status = ggml_backend_graph_compute(w->backend, graph);
    double took = now_ns() - start;
    if (status != GGML_STATUS_SUCCESS) fail("ggml failed with status %d", status);
    ggml_free(ctx);
    return took / calls;
}

// ---- widening ------------------------------------------------------------------------------------------------

typedef void (*widen_t)(const void *, float *, int64_t);

// The vector loops that the CPU backend has for two types, else the one that the type's table names.
static widen_t widening(enum ggml_type type) {
    const char * name = type == GGML_TYPE_F16 ? "ggml_cpu_fp16_to_fp32"
                      : type == GGML_TYPE_BF16 ? "ggml_cpu_bf16_to_fp32" : NULL;
    widen_t own = name != NULL ? (widen_t) dlsym(RTLD_DEFAULT, name) : NULL;
    return own != NULL ? own : (widen_t) ggml_get_type_traits(type)->to_float;
}

static void widen(struct work * w, widen_t f, int matrix, float * to) {
    const char * from = w->weights[matrix]->data;
    size_t row = ggml_row_size(w->type, w->in);
    #pragma omp parallel for num_threads(w->threads) schedule(static)
    for (int part = 0; part < w->threads; part++) {
        int64_t first = w->out * part / w->threads, end = w->out * (part + 1) / w->threads;
        f(from + row * (size_t) first, to + first * w->in, (end - first) * w->in);
    }
}

static double time_widening(struct work * w, widen_t f, float ** outputs, int calls) {
    double start = now_ns();
    for (int i = 0; i < calls; i++) {
        widen(w, f, w->next, outputs[w->next % OUTPUTS]);
        w->next = (w->next + 1) % w->count;
    }
    return (now_ns() - start) / calls;
}

// ---- lines ---------------------------------------------------------------------------------------------------

static float ** widened(struct work * w) {
    static float * outputs[OUTPUTS];
    size_t bytes = (size_t) (w->out * w->in) * sizeof(float);
    for (int i = 0; i < OUTPUTS && outputs[i] == NULL; i++) {
        outputs[i] = allocate(bytes);
        memset(outputs[i], 0, bytes);
    }
    return outputs;
}

static void obey(struct work * w, const char * line, bool repacked) {
    long long rows;
    int calls, groups;
    char path[4096];
    widen_t f = repacked ? NULL : widening(w->type);
    if (sscanf(line, "matmul %lld %d %d", &rows, &calls, &groups) == 3) {
        prepare_products(w, rows);
        for (int i = 0; i < groups; i++) printf("%.1f ", time_products(w, calls));
    } else if (sscanf(line, "write matmul %lld %4095s", &rows, path) == 2) {
        prepare_products(w, rows);
        w->next = 0;
        time_products(w, 1);
        write_file(path, w->products[0]->data, ggml_nbytes(w->products[0]));
        printf("done");
    } else if (f != NULL && sscanf(line, "decode %d %d", &calls, &groups) == 2) {
        for (int i = 0; i < groups; i++) printf("%.1f ", time_widening(w, f, widened(w), calls));
    } else if (f != NULL && sscanf(line, "write decode %4095s", path) == 1) {
        float * out = widened(w)[0];
        widen(w, f, 0, out);
        write_file(path, out, (size_t) (w->out * w->in) * sizeof(float));
        printf("done");
    } else {
        printf("none");
    }
    printf("\n");
    fflush(stdout);
}

static void quiet(enum ggml_log_level level, const char * text, void * unused) {
    (void) unused;
    if (level >= GGML_LOG_LEVEL_WARN && level != GGML_LOG_LEVEL_CONT) fputs(text, stderr);
}

int main(int argc, char ** argv) {
    ggml_log_set(quiet, NULL);
    if (argc == 8 && strcmp(argv[1], "make") == 0) return make(argv + 2);
    if (argc != 9) fail("usage: peer-ggml TYPE OUT IN COUNT WEIGHTS ACTIVATIONS THREADS plain|repack");
    struct work w = {
        .type = type_named(argv[1]), .out = atoll(argv[2]), .in = atoll(argv[3]),
        .count = atoi(argv[4]), .threads = atoi(argv[7]),
    };
    start_backend(&w, argv[8]);
    if (!multiplies(&w)) {
        printf("none: no %s product in this kind of buffer\n", argv[1]);
        return 0;
    }
    load_weights(&w, argv[5]);
    load_activations(&w, argv[6]);
    printf("ready ggml %s, %s\n", ggml_version(), ggml_backend_buft_name(w.place));
    fflush(stdout);
    char line[8192];
    while (fgets(line, sizeof line, stdin) != NULL) obey(&w, line, strcmp(argv[8], "repack") == 0);
    return 0;
}
