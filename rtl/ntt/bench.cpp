// Polynomials back to back, with a pause after every third; forward or inverse, which gives N times the coefficients.
#include "bench.hpp"

int main(int, char **argv) {
    Bench b(argv[1]);
    const size_t N = 1 << LOGN, T = 1 << LOGT, M = N / T;
    const uint64_t P = 0xFFFFFFFF00000001;
    size_t records = b.words.size() / (2 * N), sent = 0, t = 0, pause = 0, got = 0, out = M;
    long first = -1;
    while (got < records && b.clocks < 100 * b.words.size()) {
        bool sending = sent < records && pause == 0;
        b.top.start = sending && t == 0;
        for (size_t l = 0; l < T && sending; l++) {
            size_t coefficient = l * M + t, value = N + 2 * (l / 2 * M + t) + l % 2;
            set(b.top.in, l, b.words[2 * N * sent + (INVERSE ? value : coefficient)]);
        }
        b.clock();
        if (sending && ++t == M) { t = 0; if (++sent % 3 == 0) pause = 5; }
        else if (!sending && pause) pause--;
        if (b.top.out_start) { out = 0; if (first < 0) first = b.clocks - 1; }
        if (out == M) continue;
        for (size_t l = 0; l < T; l++) {
            size_t coefficient = l * M + out, value = N + 2 * (l / 2 * M + out) + l % 2;
            uint64_t wanted = b.words[2 * N * got + (INVERSE ? coefficient : value)];
            if (INVERSE) wanted = (unsigned __int128)wanted * N % P;
            b.expect(get(b.top.out, l), wanted, "value", N * got + T * out + l);
        }
        if (++out == M) got++;
    }
    char note[80];
    snprintf(note, sizeof note, ", latency %ld, a polynomial every %zu", first + 1, M);
    return b.report(note) || got != records;
}
