// Sums of one to five terms; the memory answers late, and every second sum is taken with pauses.
#include "bench.hpp"
#include <deque>

int main(int, char **argv) {
    Bench b(argv[1]);
    const size_t T = 1 << LOGT;
    auto &top = b.top;
    top.reset = 1;
    for (int i = 0; i < 24; i++) b.clock();
    top.reset = 0;
    top.read_ready = 1;
    for (size_t sum = 0; b.more(); sum++) {
        const bool small = sum % 3 == 1;
        const size_t rows = small ? SMALL_ROWS : ROWS, lane = small ? SMALL_LANE : 0, words = rows * T;
        const size_t terms = b.next(), valid = words - T + lane + 1;
        const uint64_t constant = b.next(), *coefficients = b.take(terms), *cts = b.take(terms * words), *result = b.take(words);
        size_t sent = 0, row = 0, got = 0;
        std::deque<std::pair<uint64_t, size_t>> asked;
        for (uint64_t limit = b.clocks + 100 * terms * rows; row < rows && b.clocks < limit;) {
            top.term_valid = sent < terms;
            top.term_first = sent == 0;
            top.term_last = sent + 1 == terms;
            top.term_address = sent;
            top.term_coefficient = sent < terms ? coefficients[sent] & 0xFFFFFFFFFFFF : 0;
            top.is_small = small;
            top.constant = constant;
            top.destination = 4096 * sum;
            top.write_ready = sum % 2 == 0 || b.clocks % 3 == 0;
            top.in_valid = !asked.empty() && asked.front().first <= b.clocks;
            if (top.in_valid) {
                for (size_t l = 0; l < T; l++) set(top.in_words, l, cts[asked.front().second * words + got * T + l]);
                if (++got == rows) { got = 0; asked.pop_front(); }
            }
            top.eval();
            bool takes = top.term_valid && top.term_ready;
            if (top.read_valid) asked.push_back({b.clocks + 20, top.read_address});
            if (top.read_valid) b.expect(top.read_beats, rows, "beats", sum);
            if (top.write_valid && top.write_ready) {
                for (size_t l = 0; l < T && row * T + l < valid; l++) b.expect(get(top.write_words, l), result[row * T + l], "word", row * T + l);
                b.expect(top.write_address, 4096 * sum + 8 * row * T, "address", row);
                b.expect(top.write_strobe, row + 1 == rows ? (2u << lane) - 1 : (1u << T) - 1, "strobe", row);
                row++;
            }
            b.clock();
            sent += takes;
        }
        if (row < rows) { printf("sum %zu did not end\n", sum); return 1; }
    }
    return b.report();
}
