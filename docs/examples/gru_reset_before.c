/* The GRU with the reset gate inside the recurrent product, forward and backward through time, as a program that the
 * conformance kit runs (docs/check/programs.md).  C99, libc and libm.
 *
 *     cc -std=c99 -O2 -Wall -Wextra -Werror -o mine gru_reset_before.c -lm
 *     python -m ortho_ref.conformance run --command "./mine {input} {output}" --only 'cell/gru_reset_before*'
 *
 * Columns as in the papers, one sequence of the batch after the other.  h_prev is h_{t-1}; d<name> is dL/d<name>.
 *     r = sigmoid(W_r x + U_r h_prev + b_r)                                     [ncgru:1/r]
 *     u = sigmoid(W_u x + U_u h_prev + b_u)                                     [ncgru:1/u]
 *     s = r * h_prev                                                            [ncgru:1/s]
 *     a = W_c x + U_c s                                                         [ncgru:35]
 *     c = Phi(a, b_c): tanh(a + b_c), relu(a + b_c) or modrelu(a, b_c)          [ncgru:1/c] [ncgru:19/c]
 *     h = (1 - u) * h_prev + u * c                                              [ncgru:1/h]
 *
 *     du = dh * (c - h_prev)    dc = dh * u    dh_prev = dh * (1 - u)           [bp:gru1/1]
 *     da_c, db_c = pullback of Phi at dc;  ds = U_c^T da_c;  dU_c = da_c s^T    [bp:gru1/2]
 *     dr = ds * h_prev;  dh_prev += ds * r                                      [bp:gru1/3]
 *     da_r = dr * r * (1 - r)    da_u = du * u * (1 - u)                        [bp:gru1/4]
 *     dh_prev += U_r^T da_r + U_u^T da_u;  dU_r = da_r h_prev^T, dU_u alike     [bp:gru1/5]
 *     dW_g = da_g x^T    db_g = da_g    dx = sum over g of W_g^T da_g           [bp:bptt/W]
 *     tokens: W x is the column of W that x names                               [bp:bptt/tokens]
 *     at step T dh_T is added to dh; before it dh_prev of the step after        [bp:bptt/g]
 *
 * A safetensors file is the length of its header (8 bytes, the lowest first), the header (JSON) and the numbers, taken
 * here as this machine has them: little-endian, IEEE.  All is computed in double and written in the precision of the
 * inputs.  Memory is kept until the program ends.
 */
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAILED = 1, USAGE = 2, REFUSED = 3, UNSUPPORTED = 77, DEEPEST = 64 };

static void stop(int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(code);
}

static void *allocate(size_t count, size_t size) { /* zeros */
    static void *blocks[64];
    static int used;
    if (used == 64 || !(blocks[used] = calloc(count, size))) stop(FAILED, "out of memory");
    return blocks[used++];
}

/* ---- JSON: a text that ends in 0.  A function returns where it stopped, or stops the program. ---- */

static char *scratch; /* the string read last, unescaped; as long as the header */

static const char *blank(const char *p) { return p + strspn(p, " \t\r\n"); }

static const char *digits(const char *p) {
    size_t count = strspn(p, "0123456789");
    if (!count) stop(REFUSED, "JSON: no value, or a digit is missing");
    return p + count;
}

static const char *number(const char *p) {
    if (*p == '-') p++;
    p = *p == '0' ? p + 1 : digits(p);
    if (*p == '.') p = digits(p + 1);
    if (*p == 'e' || *p == 'E') p = digits(p + (p[1] == '+' || p[1] == '-' ? 2 : 1));
    return p;
}

static const char *string(const char *p) { /* to scratch; \u beyond ASCII as '?', which no name here has */
    static const char escapes[] = "\"\\/bfnrt", stand_for[] = "\"\\/\b\f\n\r\t";
    char *out = scratch;
    if (*p != '"') stop(REFUSED, "JSON: a string is missing");
    for (p++; *p != '"'; p++) {
        if ((unsigned char)*p < ' ') stop(REFUSED, "JSON: a string without an end, or a control character in it");
        if (*p != '\\') {
            *out++ = *p;
        } else if (*++p == 'u') {
            char hex[5] = {0};
            for (int i = 0; i < 4 && p[1] && strchr("0123456789abcdefABCDEF", p[1]); i++) hex[i] = *++p;
            unsigned long code = strtoul(hex, NULL, 16);
            if (!hex[3]) stop(REFUSED, "JSON: \\u without four hexadecimal digits");
            *out++ = code && code < 0x80 ? (char)code : '?';
        } else {
            const char *escape = *p ? strchr(escapes, *p) : NULL;
            if (!escape) stop(REFUSED, "JSON: unknown escape");
            *out++ = stand_for[escape - escapes];
        }
    }
    *out = 0;
    return p + 1;
}

static const char *colon(const char *p) {
    p = blank(p);
    if (*p != ':') stop(REFUSED, "JSON: a colon is missing");
    return blank(p + 1);
}

static const char *value(const char *p, int depth) {
    if (depth > DEEPEST) stop(REFUSED, "JSON: deeper than %d", DEEPEST);
    if (*p == '"') return string(p);
    if (!strncmp(p, "true", 4) || !strncmp(p, "null", 4)) return p + 4;
    if (!strncmp(p, "false", 5)) return p + 5;
    if (*p != '{' && *p != '[') return number(p);
    char close = *p == '{' ? '}' : ']';
    p = blank(p + 1);
    if (*p == close) return p + 1;
    for (;; p = blank(p + 1)) {
        if (close == '}') p = colon(string(p));
        p = blank(value(p, depth + 1));
        if (*p == close) return p + 1;
        if (*p != ',') stop(REFUSED, "JSON: a comma is missing");
    }
}

static const char *document(const char *p, const char *end) { /* an object, all of it checked: find relies on that */
    const char *start = blank(p);
    if (*start != '{' || blank(value(start, 0)) != end) stop(REFUSED, "JSON: no object, or something after it");
    return start;
}

static const char *find(const char *object, const char *key, char first) { /* its value, that begins with `first` */
    for (const char *p = blank(object + 1); *p != '}'; p = *p == ',' ? blank(p + 1) : p) {
        p = string(p);
        int same = !strcmp(scratch, key);
        p = colon(p);
        if (same && *p == first) return p;
        p = blank(value(p, 0));
    }
    stop(REFUSED, "%s is missing, or of a wrong type", key);
    return NULL;
}

static const char *text(const char *object, const char *key) { /* the string under a key, in scratch */
    string(find(object, key, '"'));
    return scratch;
}

static size_t integers(const char *object, const char *key, size_t *out, size_t most) { /* how many there are */
    size_t count = 0;
    for (const char *p = blank(find(object, key, '[') + 1); *p != ']'; count++) {
        if (count == most) stop(REFUSED, "%s: more than %d numbers", key, (int)most);
        for (out[count] = 0; *p >= '0' && *p <= '9'; p++) {
            size_t digit = (size_t)(*p - '0');
            if (out[count] > (SIZE_MAX - digit) / 10) stop(REFUSED, "%s: too large", key);
            out[count] = 10 * out[count] + digit;
        }
        p = blank(p);
        if (*p != ',' && *p != ']') stop(REFUSED, "%s: not a whole number of 0 or more", key);
        if (*p == ',') p = blank(p + 1);
    }
    return count;
}

/* ---- safetensors ---- */

typedef union {
    double f64;
    float f32;
    int64_t i64;
} Number;

typedef struct {
    const char *name;
    size_t rank, shape[3], count;
    int integer;
    double *data;
} Tensor;

static const char *header;         /* name -> dtype, shape, data_offsets */
static const unsigned char *bytes; /* the numbers */
static size_t size, width;         /* in bytes: of all numbers; of one, but for tokens, read or written: 8 or 4 */

static void read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    long end = file && !fseek(file, 0, SEEK_END) ? ftell(file) : -1;
    if (end < 0 || fseek(file, 0, SEEK_SET)) stop(FAILED, "cannot open %s", path);
    unsigned char *all = allocate((size_t)end + 1, 1);
    size = fread(all, 1, (size_t)end, file);
    if (size != (size_t)end) stop(FAILED, "cannot read %s", path);
    fclose(file);

    uint64_t length = 0;
    if (size < 8) stop(REFUSED, "shorter than the 8 bytes that a safetensors file begins with");
    for (int i = 8; i-- > 0;) length = length << 8 | all[i];
    if (length > size - 8) stop(REFUSED, "the header is longer than the file");
    size -= 8 + (size_t)length;
    bytes = all + 8 + length;
    scratch = allocate((size_t)length + 1, 1);
    char *json = allocate((size_t)length + 1, 1);
    memcpy(json, all + 8, (size_t)length);
    header = document(json, json + length);
}

/* An input.  Floating-point numbers are finite and of one precision; I64 is for tokens alone. */
static Tensor input(const char *name) {
    const char *entry = find(header, name, '{'), *dtype = text(entry, "dtype");
    Tensor t = {name, 0, {0, 0, 0}, 1, !strcmp(dtype, "I64"), NULL};
    size_t range[2], own = !strcmp(dtype, "F32") ? 4 : !strcmp(dtype, "F64") || t.integer ? 8 : 0;
    if (!own || (t.integer && strcmp(name, "x"))) stop(REFUSED, "%s is %s", name, dtype);
    if (!t.integer && width && own != width) stop(REFUSED, "%s is %s, another input is not", name, dtype);
    if (!t.integer) width = own;

    t.rank = integers(entry, "shape", t.shape, 3);
    for (size_t i = 0; i < t.rank; i++) {
        if (!t.shape[i] || t.count > SIZE_MAX / t.shape[i]) stop(REFUSED, "%s has a wrong shape", name);
        t.count *= t.shape[i];
    }
    if (integers(entry, "data_offsets", range, 2) != 2 || range[0] > range[1] || range[1] > size ||
        (range[1] - range[0]) % own || (range[1] - range[0]) / own != t.count)
        stop(REFUSED, "%s: data_offsets are outside of the file, or do not fit the shape", name);

    t.data = allocate(t.count, sizeof *t.data);
    for (size_t i = 0; i < t.count; i++) {
        Number v;
        memcpy(&v, bytes + range[0] + i * own, own);
        t.data[i] = t.integer ? (double)v.i64 : own == 4 ? v.f32 : v.f64;
        if (!isfinite(t.data[i])) stop(REFUSED, "%s has an entry that is not finite", name);
    }
    return t;
}

static double *input_like(const char *name, const Tensor *like) {
    Tensor t = input(name);
    if (t.rank != like->rank || memcmp(t.shape, like->shape, t.rank * sizeof *t.shape))
        stop(REFUSED, "%s has a wrong shape", name);
    return t.data;
}

static void write_file(const char *path, const Tensor *outputs, size_t how_many) {
    char json[4096] = "{";
    size_t at = 1, offset = 0;
    for (size_t k = 0; k < how_many; k++) {
        const Tensor *t = &outputs[k];
        at += sprintf(json + at, "%s\"%s\":{\"dtype\":\"F%d\",\"shape\":", k ? "," : "", t->name, 8 * (int)width);
        for (size_t i = 0; i < t->rank; i++) at += sprintf(json + at, "%c%zu", i ? ',' : '[', t->shape[i]);
        at += sprintf(json + at, "],\"data_offsets\":[%zu,%zu]}", offset, offset + t->count * width);
        offset += t->count * width;
    }
    json[at++] = '}';
    while (at % 8) json[at++] = ' '; /* so that the numbers are aligned */
    FILE *file = fopen(path, "wb");
    if (!file) stop(FAILED, "cannot open %s", path);
    for (int i = 0; i < 8; i++) fputc((int)((uint64_t)at >> 8 * i & 0xFF), file);
    fwrite(json, 1, at, file);
    for (const Tensor *t = outputs; t < outputs + how_many; t++) {
        for (size_t i = 0; i < t->count; i++) {
            Number v = {t->data[i]};
            if (width == 4) v.f32 = (float)t->data[i];
            fwrite(&v, width, 1, file);
        }
    }
    if (ferror(file) | fclose(file)) stop(FAILED, "cannot write %s", path);
}

/* ---- the cell ---- */

enum { W_r, U_r, b_r, W_u, U_u, b_u, W_c, U_c, b_c, WEIGHTS };
static const char *const NAMES[WEIGHTS] = {"d_weights.W_r", "d_weights.U_r", "d_weights.b_r",
                                           "d_weights.W_u", "d_weights.U_u", "d_weights.b_u",
                                           "d_weights.W_c", "d_weights.U_c", "d_weights.b_c"};

static size_t T, B, m, n;
static int tokens; /* whether x is of tokens, (T, B), and not of vectors, (T, B, m) */
static enum { TANH, RELU, MODRELU } activation;
static double *w[WEIGHTS], *d[WEIGHTS]; /* weights and their gradients: W (n, m), U (n, n), b (n) */

typedef struct {
    double *r, *u, *s, *a, *c; /* of one step of one sequence, (n); a is the pre-activation without b_c */
} Cache;

static double sigmoid(double a) { return a >= 0 ? 1 / (1 + exp(-a)) : exp(a) / (1 + exp(a)); }
static double ramp(double a) { return a < 0 ? 0 : a; }
static double sign(double a) { return (a > 0) - (a < 0); }

static double phi(double a, double b) {
    if (activation == TANH) return tanh(a + b); /* [bp:tanh] */
    if (activation == RELU) return ramp(a + b); /* [bp:relu] */
    return sign(a) * ramp(fabs(a) + b);         /* [ncgru:20] */
}

static double phi_pullback(double dc, double a, double b, double c, double *db) {
    if (activation == TANH) return *db = dc * (1 - c * c); /* [bp:tanh] */
    if (activation == RELU) return *db = dc * (c > 0);     /* [bp:relu] */
    double da = dc * (a != 0 && fabs(a) + b > 0);          /* [bp:modrelu-real] */
    *db = sign(a) * da;                                    /* [bp:modrelu-real] */
    return da;
}

static double Mv(const double *M, const double *v, size_t i, size_t columns) { /* entry i of M v */
    double sum = 0;
    for (size_t j = 0; j < columns; j++) sum += M[i * columns + j] * v[j];
    return sum;
}

static double Mtv(const double *M, const double *v, size_t i) { /* entry i of M^T v, M (n, n) */
    double sum = 0;
    for (size_t j = 0; j < n; j++) sum += M[j * n + i] * v[j];
    return sum;
}

static double Wx(const double *W, const double *x, size_t i) { /* entry i of W x */
    return tokens ? W[i * m + (size_t)x[0]] : Mv(W, x, i, m); /* [bp:bptt/tokens] [bp:bptt/W] */
}

static void step_forward(const double *x, const double *h_prev, double *h, Cache k) { /* one sequence */
    for (size_t i = 0; i < n; i++) {
        k.r[i] = sigmoid(Wx(w[W_r], x, i) + Mv(w[U_r], h_prev, i, n) + w[b_r][i]); /* [ncgru:1/r] */
        k.u[i] = sigmoid(Wx(w[W_u], x, i) + Mv(w[U_u], h_prev, i, n) + w[b_u][i]); /* [ncgru:1/u] */
        k.s[i] = k.r[i] * h_prev[i];                                               /* [ncgru:1/s] */
    }
    for (size_t i = 0; i < n; i++) {
        k.a[i] = Wx(w[W_c], x, i) + Mv(w[U_c], k.s, i, n); /* [ncgru:35] */
        k.c[i] = phi(k.a[i], w[b_c][i]);                   /* [ncgru:1/c] [ncgru:19/c] */
        h[i] = (1 - k.u[i]) * h_prev[i] + k.u[i] * k.c[i]; /* [ncgru:1/h] */
    }
}

static void input_pullback(int W, const double *x, const double *da, double *dx) {
    for (size_t i = 0; i < n; i++) {
        if (tokens) d[W][i * m + (size_t)x[0]] += da[i]; /* [bp:bptt/tokens] */
        for (size_t j = 0; j < m && !tokens; j++) {
            d[W][i * m + j] += da[i] * x[j];  /* [bp:bptt/W] */
            dx[j] += w[W][i * m + j] * da[i]; /* [bp:bptt/W] */
        }
    }
}

/* One sequence.  g: dL/dh_t, replaced by dL/dh_{t-1}; da: room for 3 n numbers.  Adds to dx and to d. */
static void step_backward(const double *x, const double *h_prev, Cache k, double *g, double *dx, double *da) {
    double *da_r = da, *da_u = da + n, *da_c = da + 2 * n, db_c;
    for (size_t i = 0; i < n; i++) {
        double du = g[i] * (k.c[i] - h_prev[i]), dc = g[i] * k.u[i];  /* [bp:gru1/1] */
        g[i] *= 1 - k.u[i];                                           /* [bp:gru1/1] */
        da_c[i] = phi_pullback(dc, k.a[i], w[b_c][i], k.c[i], &db_c); /* [bp:gru1/2] */
        da_u[i] = du * k.u[i] * (1 - k.u[i]);                         /* [bp:gru1/4] */
        d[b_c][i] += db_c;                                            /* [bp:bptt/W] */
    }
    for (size_t i = 0; i < n; i++) {
        double ds = Mtv(w[U_c], da_c, i);     /* [bp:gru1/2] */
        double dr = ds * h_prev[i];           /* [bp:gru1/3] */
        g[i] += ds * k.r[i];                  /* [bp:gru1/3] */
        da_r[i] = dr * k.r[i] * (1 - k.r[i]); /* [bp:gru1/4] */
    }
    for (size_t i = 0; i < n; i++) {
        g[i] += Mtv(w[U_r], da_r, i) + Mtv(w[U_u], da_u, i); /* [bp:gru1/5] */
        for (size_t j = 0; j < n; j++) {
            d[U_c][i * n + j] += da_c[i] * k.s[j];    /* [bp:gru1/2] */
            d[U_r][i * n + j] += da_r[i] * h_prev[j]; /* [bp:gru1/5] */
            d[U_u][i * n + j] += da_u[i] * h_prev[j]; /* [bp:gru1/5] */
        }
        d[b_r][i] += da_r[i]; /* [bp:bptt/W] */
        d[b_u][i] += da_u[i]; /* [bp:bptt/W] */
    }
    input_pullback(W_r, x, da_r, dx); /* [bp:bptt/W] */
    input_pullback(W_u, x, da_u, dx); /* [bp:bptt/W] */
    input_pullback(W_c, x, da_c, dx); /* [bp:bptt/W] */
}

static void dispatch(void) { /* leaves the program where the case is not this cell's */
    const char *metadata = find(header, "__metadata__", '{'), *kind = text(metadata, "kind");
    if (strcmp(kind, "cell")) stop(UNSUPPORTED, "unsupported kind");
    size_t length = strlen(text(metadata, "config"));
    char *json = allocate(length + 1, 1);
    memcpy(json, scratch, length);
    const char *config = document(json, json + length);
    if (strcmp(text(config, "cell"), "gru_reset_before")) stop(UNSUPPORTED, "unsupported cell");
    const char *name = text(config, "activation");
    activation = !strcmp(name, "tanh") ? TANH : !strcmp(name, "relu") ? RELU : MODRELU;
    if (activation == MODRELU && strcmp(name, "modrelu")) stop(UNSUPPORTED, "unsupported activation");
}

int main(int count, char **arguments) {
    if (count != 3) stop(USAGE, "usage: %s INPUT OUTPUT", arguments[0]);
    read_file(arguments[1]);
    dispatch();

    Tensor x = input("x"), h0 = input("h0"), W = input("weights.W_r"), out[WEIGHTS + 3];
    tokens = x.integer;
    if (x.rank != (tokens ? 2 : 3) || h0.rank != 2 || W.rank != 2) stop(REFUSED, "x, h0 or weights.W_r: wrong rank");
    T = x.shape[0], B = x.shape[1], m = W.shape[1], n = h0.shape[1];
    if (h0.shape[0] != B || (!tokens && x.shape[2] != m)) stop(REFUSED, "x, h0 and weights.W_r do not fit together");
    for (size_t i = 0; tokens && i < x.count; i++)
        if (x.data[i] < 0 || x.data[i] >= (double)m) stop(REFUSED, "x holds a token that is no column of W");
    Tensor steps = {"h", 3, {T, B, n}, 0, 0, NULL};
    double *dh = input_like("dh", &steps), *g = input_like("dh_T", &h0);
    for (int k = 0; k < WEIGHTS; k++) {
        size_t columns = k % 3 == 0 ? m : k % 3 == 1 ? n : 1; /* of a W, a U, a b */
        out[k] = (Tensor){NAMES[k], k % 3 == 2 ? 1 : 2, {n, columns, 0}, n * columns, 0, NULL};
        w[k] = input_like(NAMES[k] + 2, &out[k]);
        out[k].data = d[k] = allocate(out[k].count, sizeof(double));
    }

    size_t states = B * n, inputs = x.count / (T * B); /* numbers of a state; of x for one sequence and step */
    double *h = allocate((T + 1) * states, sizeof *h), *dx = allocate(x.count, sizeof *dx);
    double *numbers = allocate(T * states, 5 * sizeof *numbers), *da = allocate(n, 3 * sizeof *da);
    Cache *tape = allocate(T * B, sizeof *tape);
    memcpy(h, h0.data, states * sizeof *h);
    for (size_t i = 0; i < T * B; i++) { /* step i / B of sequence i % B */
        double *r = numbers + 5 * i * n;
        tape[i] = (Cache){r, r + n, r + 2 * n, r + 3 * n, r + 4 * n};
        step_forward(x.data + i * inputs, h + i * n, h + states + i * n, tape[i]); /* [bp:bptt/forward] */
    }
    for (size_t i = T * B; i-- > 0;) {
        double *g_b = g + i % B * n; /* of dh_T at first, of d_h0 at last */
        for (size_t j = 0; j < n; j++) g_b[j] += dh[i * n + j]; /* [bp:bptt/g] */
        step_backward(x.data + i * inputs, h + i * n, tape[i], g_b, dx + i * inputs, da); /* [bp:bptt/g] */
    }

    out[WEIGHTS] = (Tensor){"h", 3, {T + 1, B, n}, (T + 1) * states, 0, h};
    out[WEIGHTS + 1] = (Tensor){"d_h0", 2, {B, n, 0}, states, 0, g};
    out[WEIGHTS + 2] = (Tensor){"d_x", 3, {T, B, m}, x.count, 0, dx};
    write_file(arguments[2], out, WEIGHTS + (tokens ? 2 : 3));
    return 0;
}
