// The common parts of the benches: a clock, wide ports as words, vectors, and counting errors.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include "Vtop.h"
#include "verilated.h"

struct Bench {
    Vtop top;
    uint64_t clocks = 0, right = 0, wrong = 0;
    std::vector<uint64_t> words;  // the vectors
    size_t at = 0;

    explicit Bench(const char *path) {
        FILE *file = fopen(path, "rb");
        if (!file) { perror(path); exit(2); }
        uint64_t buffer[4096];
        size_t got;
        while ((got = fread(buffer, 8, 4096, file)) > 0) words.insert(words.end(), buffer, buffer + got);
        fclose(file);
        top.clk = 0;
        top.eval();
    }

    void clock() {
        top.clk = 1;
        top.eval();
        top.clk = 0;
        top.eval();
        clocks++;
    }

    uint64_t next() { return words.at(at++); }
    const uint64_t *take(size_t count) {
        if (at + count > words.size()) { fprintf(stderr, "the vectors end early\n"); exit(2); }
        at += count;
        return &words[at - count];
    }
    bool more() const { return at < words.size(); }

    void expect(uint64_t got, uint64_t wanted, const char *what, size_t where) {
        if (got == wanted) { right++; return; }
        if (wrong++ < 5) printf("%s %zu: %016lx, wanted %016lx\n", what, where, got, wanted);
    }

    int report(const char *note = "") {
        printf("%lu words right, %lu wrong, %lu clocks%s\n", right, wrong, clocks, note);
        return wrong != 0 || right == 0;
    }
};

// A reset of one clock, the shortest there is. A unit must forget its work before it.
template <class B> void reset(B &b) {
    b.top.reset = 1;
    b.clock();
    b.top.reset = 0;
}

// Numbers that look random, the same in every run.
struct Random {
    uint64_t state = 88172645463325252ull;
    uint64_t below(uint64_t bound) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state % bound;
    }
};

// How often a bench stops its unit at a random moment with a reset: its second argument.
inline uint64_t aborts(int count, char **values) { return count > 2 ? strtoull(values[2], nullptr, 10) : 0; }

// Word i of a port of any width.
template <class Port> void set(Port &port, size_t i, uint64_t word) { memcpy(reinterpret_cast<char *>(&port) + 8 * i, &word, 8); }
template <class Port> uint64_t get(const Port &port, size_t i) {
    uint64_t word;
    memcpy(&word, reinterpret_cast<const char *>(&port) + 8 * i, 8);
    return word;
}
