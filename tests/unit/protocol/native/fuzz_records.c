/* Damaged records for records.c, each in a buffer of exactly their size.
 *
 * Built with -fsanitize=address,undefined, it ends with a report at the first byte that is read
 * outside. Arguments: how many inputs, and a seed.
 */

#include RECORDS_C

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Python's part, without Python: an object is a view already. */
int PyObject_GetBuffer(void *object, struct view *view, int flags)
{
    *view = *(struct view *)object;
    return flags;
}
void PyBuffer_Release(struct view *view) { view->bytes = NULL; }
void *PyEval_SaveThread(void) { return stdout; }
void PyEval_RestoreThread(void *state) { (void)state; }

static uint64_t state;

static uint64_t dice(uint64_t sides)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % sides;
}

static uint8_t *put(uint8_t *at, int64_t value)
{
    uint64_t bits = (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
    for (; bits > 127; bits >>= 7)
        *at++ = (uint8_t)(bits | 128);
    *at++ = (uint8_t)bits;
    return at;
}

static uint8_t *put_bytes(uint8_t *at, int64_t size)
{
    at = put(at, size);
    for (; size > 0; size--)
        *at++ = (uint8_t)dice(256);
    return at;
}

/* A record with keys, values and headers of any size, or without. */
static uint8_t *put_record(uint8_t *at, int64_t index)
{
    uint8_t body[2048], *end = body;
    *end++ = 0;
    end = put(end, (int64_t)dice(1 << dice(20)) - 50);
    end = put(end, index);
    end = put_bytes(end, (int64_t)dice(1 << dice(8)) - 1);
    end = put_bytes(end, (int64_t)dice(1 << dice(10)) - 1);
    uint64_t headers = dice(4) ? 0 : dice(3);
    end = put(end, (int64_t)headers);
    for (; headers > 0; headers--) {
        end = put_bytes(end, (int64_t)dice(9));
        end = put_bytes(end, (int64_t)dice(9) - 1);
    }
    at = put(at, end - body);
    memcpy(at, body, (size_t)(end - body));
    return at + (end - body);
}

static void damage(uint8_t *bytes, size_t size)
{
    static const uint8_t evil[] = {0, 1, 127, 128, 254, 255};
    for (uint64_t times = dice(5); times > 0 && size > 0; times--)
        bytes[dice(size)] = dice(2) ? evil[dice(sizeof evil)] : (uint8_t)dice(256);
}

static void expect(int truth, const char *what)
{
    if (!truth) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

/* One input; whether it was sound. */
static int run(void)
{
    static uint8_t space[HEADER_SIZE + 8 * 2100];
    uint8_t *end = space + HEADER_SIZE;
    int64_t count = (int64_t)dice(8);
    memset(space, 0, HEADER_SIZE);
    for (int64_t index = 0; index < count; index++)
        end = put_record(end, index);
    size_t size = (size_t)(end - space);
    damage(end - dice((uint64_t)(size - HEADER_SIZE) + 1), dice(2) ? 1 : 0);
    damage(space + HEADER_SIZE, size - HEADER_SIZE);
    if (!dice(4))
        size = dice(size + 1);
    int64_t said = dice(8) ? count : (int64_t)dice(UINT32_MAX);
    uint8_t *batch = malloc(size ? size : 1);
    memcpy(batch, space, size);
    struct view view = {.bytes = batch, .size = (ptrdiff_t)size};
    int held = 0;
    if (size >= HEADER_SIZE) {
        struct view area = {.bytes = batch + HEADER_SIZE, .size = (ptrdiff_t)size - HEADER_SIZE};
        struct rules rules = {(int64_t)dice(1 << 20), 0, 1 << 10, (int64_t)dice(2)};
        struct answer answer;
        struct place place;
        int64_t bounds[3] = {(int64_t)dice(99), -(int64_t)dice(5), (int64_t)dice(9)};
        for (int byte = 0; byte < 4; byte++)
            batch[COUNT_AT + byte] = (uint8_t)(said >> (24 - 8 * byte));
        rules.base = 0;
        klamm_scan(&area, said, &rules, &answer);
        expect(answer.named >= 0 && answer.named <= FAULTS_MAX, "more faults than there is room");
        if (answer.fault == SOUND) {
            expect(answer.end >= 0 && answer.end <= area.size, "the end is outside");
            for (int byte = 0; byte < 8; byte++)
                batch[MAX_TIME_AT + byte] = (uint8_t)((uint64_t)answer.latest >> (56 - 8 * byte));
        }
        held = klamm_holds(&view);
        expect(held == (answer.fault == SOUND && answer.end == area.size), "the two disagree");
        klamm_find(&area, said, bounds, 0, &place);
        klamm_find(&area, said, bounds, 1, &place);
    } else {
        expect(!klamm_holds(&view), "less than a header holds");
    }
    free(batch);
    return held;
}

int main(int argc, char **argv)
{
    long inputs = argc > 1 ? atol(argv[1]) : 1000, sound = 0;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) * 2 + 1 : 1;
    for (long input = 0; input < inputs; input++)
        sound += run();
    printf("%ld of %ld sound\n", sound, inputs);
    return 0;
}
