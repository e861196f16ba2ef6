// Programs in memory: a compiled adder, whose results and clocks must be what the library says; the same with a memory that
// stalls at random and brings keys late; damaged programs, which must be refused with the word and the reason; and programs
// that a reset stops at a random moment, each before a whole one. Of several adders side by side
// also what the model says of its units: how long the big ones work, and that one hides the other.
#include "bench.hpp"
#include <deque>

constexpr uint64_t LATENCY = 100, WRITE_LATENCY = 50;  // clocks from a request to its first beat, and to the answer of a write

struct Memory {
    std::vector<uint64_t> words;
    uint64_t beats[16] = {0};
    bool stalls = false;
    Random random;
    bool stalled() {
        return stalls && random.below(4) == 0;
    }
    uint64_t &at(uint64_t address) {
        if (address % 8 || address / 8 >= words.size()) { fprintf(stderr, "no memory at %lx\n", address); exit(2); }
        return words[address / 8];
    }
};

struct Read {
    struct Burst { uint64_t from, address, beats; };
    std::deque<Burst> asked;
    void ask(uint64_t now, bool valid, uint64_t address, uint64_t beats, uint64_t late) {
        if (valid) asked.push_back({now + LATENCY + late, address, beats});
    }
    template <class Port> bool give(Memory &memory, uint64_t now, Port &port, size_t width, uint64_t &count) {
        if (asked.empty() || asked.front().from > now || memory.stalled()) return false;
        Burst &burst = asked.front();
        // The last row of a ciphertext may reach past its end.
        for (size_t i = 0; i < width; i++) set(port, i, burst.address / 8 + i < memory.words.size() ? memory.at(burst.address + 8 * i) : 0);
        burst.address += 8 * width;
        count++;
        if (--burst.beats == 0) asked.pop_front();
        return true;
    }
};

struct Write {
    std::deque<uint64_t> answers;
    template <class Port> void take(Memory &memory, uint64_t now, bool valid, uint64_t address, const Port &words, uint64_t strobe, bool last) {
        if (!valid) return;
        for (size_t i = 0; i < (size_t)1 << LOGT; i++) if (strobe >> i & 1) memory.at(address + 8 * i) = get(words, i);
        if (last) answers.push_back(now + WRITE_LATENCY);
    }
    bool answer(uint64_t now) {
        if (answers.empty() || answers.front() > now) return false;
        answers.pop_front();
        return true;
    }
};

// Keys that stall come up to this much later, a few steps of a batch.
constexpr uint64_t LATE = 2048;
struct Run { uint64_t clocks, status, offset, switching, bootstrapping, both, first, last; };

#define READS(X) X(0, fetch, 1) X(1, linear, T) X(2, switch, T) X(3, switch_key, KS_LEVEL * T / KS_BEATS) X(4, table, T) \
    X(5, bootstrap, 1) X(6, bootstrap_key, LEVEL * (K + 1) * T / BSK_BEATS)
#define WRITES(X) X(0, linear) X(1, switch) X(2, bootstrap)

Run run(Bench &b, Memory &memory, uint64_t program, uint64_t words, uint64_t slots, uint64_t limit) {
    const size_t T = 1 << LOGT;
    auto &top = b.top;
    Read reads[7];
    Write writes[3];
    // The memory forgets with the reset what it was asked for.
    reset(b);
#define FORGET(i, name, width) top.name##_in_valid = 0;
#define FORGET_WRITE(i, name) top.name##_written = 0;
    READS(FORGET)
    WRITES(FORGET_WRITE)
    top.program_address = program;
    top.program_words = words;
    top.slots = slots;
    top.start = 1;
    b.clock();
    top.start = 0;
    Run r = {};
    for (uint64_t now = 1; !top.done && now < limit; now++) {
#define BEFORE(i, name, width) \
        top.name##_ready = !memory.stalled(); \
        top.name##_in_valid = reads[i].give(memory, now, top.name##_in, width, memory.beats[i]);
#define BEFORE_WRITE(i, name) \
        top.name##_write_ready = !memory.stalled(); \
        top.name##_written = writes[i].answer(now);
        READS(BEFORE)
        WRITES(BEFORE_WRITE)
        top.eval();
#define AFTER(i, name, width) reads[i].ask(now, top.name##_valid && top.name##_ready, top.name##_address, top.name##_beats, \
        memory.stalls && (i == 3 || i == 6) ? memory.random.below(LATE) : 0);
#define AFTER_WRITE(i, name) writes[i].take(memory, now, top.name##_write_valid && top.name##_write_ready, \
        top.name##_write_address, top.name##_write_words, top.name##_write_strobe, top.name##_write_last);
        READS(AFTER)
        WRITES(AFTER_WRITE)
        r.switching += top.switch_busy;
        r.bootstrapping += top.bootstrap_busy;
        r.both += top.switch_busy && top.bootstrap_busy;
        if (top.bootstrap_busy) {
            if (!r.first) r.first = now;
            r.last = now;
        }
        b.clock();
        r.clocks = now;
        if (getenv("RTL_TRACE") && (top.switch_busy | top.bootstrap_busy << 1) != (int)r.offset) {
            r.offset = top.switch_busy | top.bootstrap_busy << 1;
            printf("%lu: switch %d bootstrap %d\n", now, top.switch_busy, top.bootstrap_busy);
        }
    }
    r.status = top.done ? top.status : 255;
    r.offset = top.offset;
    return r;
}

// Compares the memory with the results, which begin at record `from` of the vectors.
void check(Bench &b, Memory &memory, size_t from) {
    b.at = from;
    while (b.more()) {
        uint64_t address = b.next(), count = b.next();
        const uint64_t *wanted = b.take(count);
        for (uint64_t i = 0; i < count; i++) b.expect(memory.at(address + 8 * i), wanted[i], "word", address / 8 + i);
    }
}

int main(int count, char **values) {
    Bench b(values[1]);
    Memory memory;
    const uint64_t program = b.next(), words = b.next(), slots = b.next(), clocks = b.next();
    const uint64_t switching = b.next(), bootstrapping = b.next(), both = b.next(), size = b.next();
    const uint64_t *image = b.take(size);
    const uint64_t damaged = b.next();
    std::vector<const uint64_t *> damages;
    for (uint64_t i = 0; i < damaged; i++) damages.push_back(b.take(5));  // words, changed word, to what, status, offset
    memory.words.assign(image, image + size);
    for (uint64_t i = 0; i < damaged; i++) {
        const uint64_t *d = damages[i];
        uint64_t &word = memory.words[program / 8 + d[1]], kept = word;
        word = d[2];
        Run r = run(b, memory, program, d[0], slots, 100 * clocks + 1000000);
        b.expect(r.status, d[3], "status", i);
        b.expect(r.offset, d[4], "offset", i);
        word = kept;
    }
    size_t from = b.at;
    Run first = {};
    for (int turn = 0; turn < (STALLS && damaged ? 2 : 1); turn++) {
        memory.words.assign(image, image + size);
        memory.stalls = turn == 1;
        std::fill(memory.beats, memory.beats + 16, 0);
        Run r = run(b, memory, program, words, slots, 100 * clocks + 100000000);
        b.expect(r.status, 0, "status", turn);
        if (turn == 0) {
            first = r;
            b.expect(r.clocks, clocks, "clocks", 0);
            // A unit's first and last clock of a batch are counted otherwise in the model: a clock or two of thousands.
            auto near = [&](uint64_t got, uint64_t wanted, const char *what) {
                uint64_t far = got > wanted ? got - wanted : wanted - got;
                b.expect(far * 100 <= wanted ? wanted : got, wanted, what, 0);
            };
            if (!damaged) {
                near(r.switching, switching, "clocks of the key switch");
                near(r.bootstrapping, bootstrapping, "clocks of the bootstrap");
                near(r.both, both, "clocks of both");
            }
            // Full batches: from the first on, bootstraps follow each other, and all key switches but the first lie behind.
            if (!damaged && r.bootstrapping * 100 < (r.last - r.first + 1) * 95) {
                printf("the bootstrap works %lu of %lu clocks\n", r.bootstrapping, r.last - r.first + 1);
                b.wrong++;
            }
        }
        check(b, memory, from);
    }
    const uint64_t times = aborts(count, values);
    memory.stalls = false;
    Random random;
    for (uint64_t i = 0; i < times; i++) {
        memory.words.assign(image, image + size);
        run(b, memory, program, words, slots, 1 + random.below(clocks));
        memory.words.assign(image, image + size);
        Run r = run(b, memory, program, words, slots, 2 * clocks);
        b.expect(r.status, 0, "status behind reset", i);
        b.expect(r.clocks, clocks, "clocks behind reset", i);
        check(b, memory, from);
    }
    char note[240];
    snprintf(note, sizeof note, ", %lu for the program; key switch busy %lu, bootstrap %lu, both %lu, bootstraps within %lu; %lu resets", first.clocks,
             first.switching, first.bootstrapping, first.both, first.last - first.first + 1, times);
    return b.report(note);
}
