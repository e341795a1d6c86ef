/* The loops over the records of a batch, compiled.
 *
 * The twins of `record_scan.py`: the same records pass, at some nanoseconds each. Nothing here takes
 * memory or keeps any state. A position is compared with the end of what it may read before each byte
 * is read, and a length with what is left before it is added, so that no sum can leave the buffer.
 *
 * Python's header files are not needed to build this. What is used of its interface is declared below
 * and part of the stable ABI since Python 3.11, so that one library serves all versions from there on.
 */

#include <stddef.h>
#include <stdint.h>

/* What klamm was built from, as a checksum; a library of other sources is not used. */
#ifndef KLAMM_SOURCE
#define KLAMM_SOURCE 0
#endif

/* Python's view of the bytes of an object, `Py_buffer`. */
struct view {
    const uint8_t *bytes;
    void *owner;
    ptrdiff_t size;
    ptrdiff_t item_size;
    int is_readonly;
    int dimensions;
    char *format;
    ptrdiff_t *shape, *strides, *suboffsets;
    void *internal;
    void *spare[16]; /* in case a later Python has more */
};

int PyObject_GetBuffer(void *object, struct view *view, int flags);
void PyBuffer_Release(struct view *view);
void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *state);

enum {
    SIMPLE_VIEW = 0,
    HEADER_SIZE = 61, /* of a batch, and where in it some fields are */
    ATTRIBUTES_AT = 21,
    BASE_TIME_AT = 27,
    MAX_TIME_AT = 35,
    COUNT_AT = 57,
    CODEC_MASK = 7, /* of the attributes: how the records are compressed */
    RECORD_SIZE_MIN = 7,
    HELD_MAX = 200000, /* records of a batch that take about two milliseconds */
    INT_BYTES_MAX = 5, /* of numbers of variable length */
    LONG_BYTES_MAX = 10,
    NO_TIME = -1,
    FAULTS_MAX = 100,
    LARGE = 1 << 16 /* bytes from which on other threads should not wait */
};

/* Times further than this from each other are nonsense; below it no sum leaves 64 bits. */
static const uint64_t TIME_SPAN_MAX = (uint64_t)1 << 56;
static const int64_t FAR = (int64_t)1 << 62;
static const int64_t NO_KEY = INT64_MAX; /* stands for a time where the key is missing */

/* What is wrong with a record; `record_scan.py` has the words. */
enum fault { SOUND = -1, ENDS, LENGTHS, PLACE, TIME };

struct record {
    int64_t delta; /* of its time to that of its batch */
    int has_key;
};

struct rules {
    int64_t base, oldest, newest, needs_key;
};

struct answer {
    int64_t fault;  /* what is wrong, and in which record */
    int64_t record;
    int64_t end;    /* of the last record */
    int64_t latest;
    int64_t named;  /* how many records are sound and break a rule */
    int64_t broken[FAULTS_MAX][2]; /* record, time */
};

struct place {
    int64_t is_found, offset, time;
};

/* The bits of a number as they are written, half of it and a sign at the end; NULL: it does not end.
 * Ten bytes may have 70 bits, of which the last six must not be used. */
static const uint8_t *any_number(const uint8_t *at, const uint8_t *end, int bytes_max,
                                 uint64_t *bits)
{
    uint64_t value = 0;
    for (int place = 0; place < bytes_max && at < end; place++) {
        uint64_t byte = *at++;
        if (place == LONG_BYTES_MAX - 1 && byte > 1)
            return NULL;
        value |= (byte & 127) << (7 * place);
        if (byte < 128) {
            *bits = value;
            return at;
        }
    }
    return NULL;
}

/* The same, quicker for those of one or two bytes, as nearly all are. */
static inline const uint8_t *number(const uint8_t *at, const uint8_t *end, int bytes_max,
                                    uint64_t *bits)
{
    if (end - at >= 2) {
        if (at[0] < 128) {
            *bits = at[0];
            return at + 1;
        }
        if (at[1] < 128) {
            *bits = (at[0] & 127u) | (uint64_t)at[1] << 7;
            return at + 2;
        }
    }
    return any_number(at, end, bytes_max, bits);
}

static inline int64_t signed_of(uint64_t bits)
{
    return (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
}

/* Behind as many bytes as a length says, where -1 stands for none; NULL: there are fewer. */
static inline const uint8_t *past(const uint8_t *at, const uint8_t *end, int *is_there)
{
    uint64_t bits;
    at = number(at, end, INT_BYTES_MAX, &bits);
    if (at == NULL)
        return NULL;
    *is_there = bits != 1;
    if (bits == 1)
        return at;
    if (bits & 1 || bits >> 1 > (uint64_t)(end - at))
        return NULL;
    return at + (bits >> 1);
}

static const uint8_t *past_headers(const uint8_t *at, const uint8_t *end)
{
    uint64_t bits;
    int is_there;
    at = number(at, end, INT_BYTES_MAX, &bits);
    if (at == NULL || bits & 1 || bits >> 1 > (uint64_t)(end - at))
        return NULL;
    for (uint64_t left = bits >> 1; left > 0; left--) {
        at = past(at, end, &is_there); /* the name, which each has */
        if (at == NULL || !is_there)
            return NULL;
        at = past(at, end, &is_there);
        if (at == NULL)
            return NULL;
    }
    return at;
}

/* The time of a record; NULL, with the fault, where it makes no sense. */
static inline const uint8_t *read_delta(const uint8_t *at, const uint8_t *end, int64_t *delta,
                                        enum fault *fault)
{
    uint64_t bits;
    at = number(at, end, LONG_BYTES_MAX, &bits);
    *fault = LENGTHS;
    if (at == NULL)
        return NULL;
    *fault = TIME;
    if (bits >> 1 >= TIME_SPAN_MAX)
        return NULL;
    *delta = signed_of(bits);
    return at;
}

/* Opens one record. Moves the position behind it when it is sound. */
static inline enum fault open_record(const uint8_t **from, const uint8_t *end_all, uint64_t index,
                                     struct record *record)
{
    uint64_t bits;
    int has_value;
    enum fault fault;
    const uint8_t *end, *at = number(*from, end_all, INT_BYTES_MAX, &bits);
    if (at == NULL)
        return ENDS;
    if (bits & 1 || bits < 2)
        return LENGTHS;
    if (bits >> 1 > (uint64_t)(end_all - at))
        return ENDS;
    end = at + (bits >> 1);
    at = read_delta(at + 1, end, &record->delta, &fault); /* behind the attributes, without bits yet */
    if (at == NULL)
        return fault;
    at = number(at, end, INT_BYTES_MAX, &bits);
    if (at == NULL)
        return LENGTHS;
    if (bits != index << 1)
        return PLACE;
    at = past(at, end, &record->has_key);
    if (at == NULL)
        return LENGTHS;
    at = past(at, end, &has_value);
    if (at == NULL)
        return LENGTHS;
    /* Nearly no record has headers, whose number is then the last byte. */
    if ((end - at != 1 || *at != 0) && past_headers(at, end) != end)
        return LENGTHS;
    *from = end;
    return SOUND;
}

static void name(struct answer *answer, int64_t record, int64_t time)
{
    if (answer->named < FAULTS_MAX) {
        answer->broken[answer->named][0] = record;
        answer->broken[answer->named][1] = time;
        answer->named++;
    }
}

static void scan(const uint8_t *area, const uint8_t *end_all, int64_t count,
                 const struct rules *rules, struct answer *answer)
{
    const uint8_t *at = area;
    int64_t latest = NO_TIME;
    answer->named = 0;
    for (int64_t index = 0; index < count; index++) {
        struct record record;
        enum fault fault = open_record(&at, end_all, (uint64_t)index, &record);
        if (fault != SOUND) {
            answer->fault = fault;
            answer->record = index;
            return;
        }
        int64_t time = rules->base + record.delta;
        if (time > latest)
            latest = time;
        if (rules->needs_key && !record.has_key)
            name(answer, index, NO_KEY);
        if ((time < rules->oldest || time > rules->newest) && time != NO_TIME)
            name(answer, index, time);
    }
    answer->fault = SOUND;
    answer->end = at - area;
    answer->latest = latest;
}

/* Whether the records make sense as far as a search goes; what was found is in `place`. */
static int find(const uint8_t *at, const uint8_t *end_all, int64_t count, int64_t since,
                int64_t first, int64_t upto, int newest, struct place *place)
{
    place->is_found = 0;
    for (int64_t index = 0; index < count; index++) {
        uint64_t bits;
        int64_t time, offset;
        enum fault fault;
        at = number(at, end_all, INT_BYTES_MAX, &bits);
        if (at == NULL || bits & 1 || bits < 2 || bits >> 1 > (uint64_t)(end_all - at))
            return 0;
        const uint8_t *end = at + (bits >> 1);
        at = read_delta(at + 1, end, &time, &fault);
        if (at == NULL)
            return 0;
        at = number(at, end, INT_BYTES_MAX, &bits);
        if (at == NULL)
            return 0;
        at = end;
        offset = signed_of(bits);
        if (offset < first || offset >= upto)
            continue;
        if (newest ? !place->is_found || time > place->time : time >= since) {
            place->is_found = 1;
            place->offset = offset;
            place->time = time;
            if (!newest)
                return 1;
        }
    }
    return 1;
}

static inline uint64_t big_endian(const uint8_t *at, int size)
{
    uint64_t value = 0;
    for (int place = 0; place < size; place++)
        value = value << 8 | at[place];
    return value;
}

/* Whether a whole batch that is not compressed has sound records, and the largest time it says.
 * No, too, for those with so many that others would wait: they are scanned elsewhere. */
static int holds(const uint8_t *batch, ptrdiff_t size)
{
    if (size < HEADER_SIZE)
        return 0;
    const uint8_t *at = batch + HEADER_SIZE, *end = batch + size;
    uint64_t base = big_endian(batch + BASE_TIME_AT, 8), count = big_endian(batch + COUNT_AT, 4);
    if (big_endian(batch + ATTRIBUTES_AT, 2) & CODEC_MASK || base >= (uint64_t)FAR)
        return 0;
    if (count > HELD_MAX || count > (uint64_t)(end - at) / RECORD_SIZE_MIN)
        return 0;
    int64_t latest = NO_TIME;
    for (uint64_t index = 0; index < count; index++) {
        struct record record;
        if (open_record(&at, end, index, &record) != SOUND)
            return 0;
        int64_t time = (int64_t)base + record.delta;
        if (time > latest)
            latest = time;
    }
    return at == end && (uint64_t)latest == big_endian(batch + MAX_TIME_AT, 8);
}

/* What Python calls, always with its lock: 1 yes, 0 no, -1 with an exception set. */

uint32_t klamm_source(void)
{
    return KLAMM_SOURCE;
}

int klamm_holds(void *batch)
{
    struct view view;
    if (PyObject_GetBuffer(batch, &view, SIMPLE_VIEW) != 0)
        return -1;
    int answer = holds(view.bytes, view.size);
    PyBuffer_Release(&view);
    return answer;
}

int klamm_scan(void *area, int64_t count, const struct rules *rules, struct answer *answer)
{
    struct view view;
    if (rules->base <= -FAR || rules->base >= FAR)
        return 0;
    if (PyObject_GetBuffer(area, &view, SIMPLE_VIEW) != 0)
        return -1;
    void *others = view.size >= LARGE ? PyEval_SaveThread() : NULL;
    scan(view.bytes, view.bytes + view.size, count, rules, answer);
    if (others != NULL)
        PyEval_RestoreThread(others);
    PyBuffer_Release(&view);
    return 1;
}

int klamm_find(void *area, int64_t count, const int64_t bounds[3], int newest, struct place *place)
{
    struct view view;
    if (PyObject_GetBuffer(area, &view, SIMPLE_VIEW) != 0)
        return -1;
    void *others = view.size >= LARGE ? PyEval_SaveThread() : NULL;
    int answer = find(view.bytes, view.bytes + view.size, count, bounds[0], bounds[1], bounds[2],
                      newest, place);
    if (others != NULL)
        PyEval_RestoreThread(others);
    PyBuffer_Release(&view);
    return answer;
}
