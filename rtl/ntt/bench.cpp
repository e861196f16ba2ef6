// Polynomials back to back, with a pause after every third; forward or inverse, which gives N times the coefficients. Then
// polynomials that a reset stops at a random moment: none of them comes out, and those behind the reset are right.
#include "bench.hpp"

// Sends polynomials until `records` came out or `most` clocks passed; returns how many came out.
size_t run(Bench &b, size_t records, uint64_t most, long &first) {
    const size_t N = 1 << LOGN, T = 1 << LOGT, M = N / T;
    const uint64_t P = 0xFFFFFFFF00000001;
    size_t sent = 0, t = 0, pause = 0, got = 0, out = M;
    const uint64_t begin = b.clocks;
    while (got < records && b.clocks - begin < most) {
        bool sending = sent < records && pause == 0;
        b.top.start = sending && t == 0;
        for (size_t l = 0; l < T && sending; l++) {
            size_t coefficient = l * M + t, value = N + 2 * (l / 2 * M + t) + l % 2;
            set(b.top.in, l, b.words[2 * N * sent + (INVERSE ? value : coefficient)]);
        }
        b.clock();
        if (sending && ++t == M) { t = 0; if (++sent % 3 == 0) pause = 5; }
        else if (!sending && pause) pause--;
        if (b.top.out_start) { out = 0; if (first < 0) first = b.clocks - 1 - begin; }
        if (out == M) continue;
        for (size_t l = 0; l < T; l++) {
            size_t coefficient = l * M + out, value = N + 2 * (l / 2 * M + out) + l % 2;
            uint64_t wanted = b.words[2 * N * got + (INVERSE ? coefficient : value)];
            if (INVERSE) wanted = (unsigned __int128)wanted * N % P;
            b.expect(get(b.top.out, l), wanted, "value", N * got + T * out + l);
        }
        if (++out == M) got++;
    }
    b.top.start = 0;
    return got;
}

int main(int count, char **values) {
    Bench b(values[1]);
    const size_t N = 1 << LOGN, M = N >> LOGT, records = b.words.size() / (2 * N);
    const uint64_t most = 100 * b.words.size(), times = aborts(count, values);
    long latency = -1;
    reset(b);
    bool good = run(b, records, most, latency) == records;
    Random random;
    for (uint64_t i = 0; i < times; i++) {
        long first = -1;
        run(b, records, 1 + random.below(3 * (latency + M)), first);
        reset(b);
        first = -1;
        good &= run(b, 2, most, first) == 2;
        b.expect(first, latency, "latency behind reset", i);
    }
    char note[100];
    snprintf(note, sizeof note, ", latency %ld, a polynomial every %zu, %lu resets", latency + 1, M, times);
    return b.report(note) || !good;
}
