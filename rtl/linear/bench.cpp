// Sums of one to five terms; the memory answers late, and every second sum is taken with pauses. Then sums that a reset stops at
// a random moment, each before a whole one.
#include "bench.hpp"
#include <deque>

struct Sum { bool small; size_t terms; uint64_t constant; const uint64_t *coefficients, *cts, *result; };

// Runs sum `number`, for `most` clocks; false if it is not written by then. The memory forgets with the end of the run.
bool run(Bench &b, const Sum &s, size_t number, uint64_t most) {
    const size_t T = 1 << LOGT, rows = s.small ? SMALL_ROWS : ROWS, lane = s.small ? SMALL_LANE : 0, words = rows * T;
    const size_t valid = words - T + lane + 1;
    auto &top = b.top;
    size_t sent = 0, row = 0, got = 0;
    std::deque<std::pair<uint64_t, size_t>> asked;
    for (uint64_t limit = b.clocks + most; row < rows && b.clocks < limit;) {
        top.term_valid = sent < s.terms;
        top.term_first = sent == 0;
        top.term_last = sent + 1 == s.terms;
        top.term_address = sent;
        top.term_coefficient = sent < s.terms ? s.coefficients[sent] & 0xFFFFFFFFFFFF : 0;
        top.is_small = s.small;
        top.constant = s.constant;
        top.destination = 4096 * number;
        top.write_ready = number % 2 == 0 || b.clocks % 3 == 0;
        top.in_valid = !asked.empty() && asked.front().first <= b.clocks;
        if (top.in_valid) {
            for (size_t l = 0; l < T; l++) set(top.in_words, l, s.cts[asked.front().second * words + got * T + l]);
            if (++got == rows) { got = 0; asked.pop_front(); }
        }
        top.eval();
        const bool takes = top.term_valid && top.term_ready;
        if (top.read_valid) asked.push_back({b.clocks + 20, top.read_address});
        if (top.read_valid) b.expect(top.read_beats, rows, "beats", number);
        if (top.write_valid && top.write_ready) {
            for (size_t l = 0; l < T && row * T + l < valid; l++)
                b.expect(get(top.write_words, l), s.result[row * T + l], "word", row * T + l);
            b.expect(top.write_address, 4096 * number + 8 * row * T, "address", row);
            b.expect(top.write_strobe, row + 1 == rows ? (2u << lane) - 1 : (1u << T) - 1, "strobe", row);
            row++;
        }
        b.clock();
        sent += takes;
    }
    top.in_valid = top.term_valid = 0;
    return row == rows;
}

int main(int count, char **values) {
    Bench b(values[1]);
    const size_t T = 1 << LOGT;
    std::vector<Sum> sums;
    while (b.more()) {
        const bool small = sums.size() % 3 == 1;
        const size_t words = (small ? SMALL_ROWS : ROWS) * T, terms = b.next();
        const uint64_t constant = b.next(), *coefficients = b.take(terms), *cts = b.take(terms * words);
        sums.push_back({small, terms, constant, coefficients, cts, b.take(words)});
    }
    b.top.read_ready = 1;
    reset(b);
    const uint64_t limit = 100 * 5 * (ROWS > SMALL_ROWS ? ROWS : SMALL_ROWS);
    for (size_t i = 0; i < sums.size(); i++)
        if (!run(b, sums[i], i, limit)) { printf("sum %zu did not end\n", i); return 1; }
    Random random;
    const uint64_t times = aborts(count, values);
    for (uint64_t i = 0; i < times; i++) {
        const size_t stopped = random.below(sums.size()), next = random.below(sums.size());
        run(b, sums[stopped], stopped, 1 + random.below(20 + 5 * ROWS));
        reset(b);
        if (!run(b, sums[next], next, limit)) { printf("sum %zu did not end behind reset %lu\n", next, i); return 1; }
    }
    char note[60];
    snprintf(note, sizeof note, ", %lu resets", times);
    return b.report(note);
}
