// Lattigo's half of `becalm-bench -- ckks`: makes keys, then answers commands on standard input, a JSON object a line.
//
//	threads N             from now on so many; the answer is empty
//	bootstrap MESSAGE     one bootstrap of a ciphertext at level 0
//	together K MESSAGE    K of them at once, a goroutine each; seconds are per ciphertext
//	multiply | rotate | encrypt | decrypt    at the user's highest level
//
// MESSAGE: ramp (linspace -1 … 1), complex, ones, signs. Set: the library's N16QP1546H192H32, or its chain in a small ring.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/cmplx"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tuneinsight/lattigo/v6/circuits/ckks/bootstrapping"
	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"
)

type worker struct {
	params    ckks.Parameters
	encoder   *ckks.Encoder
	encryptor *rlwe.Encryptor
	decryptor *rlwe.Decryptor
	evaluator *ckks.Evaluator
	bootstrap *bootstrapping.Evaluator
}

type answer struct {
	Seconds float64 `json:"seconds"`
	// Of the processor, all threads of the process together.
	Processor float64 `json:"processor"`
	Mean      float64 `json:"mean"`
	Max       float64 `json:"max"`
	Level     int     `json:"level"`
}

// stopwatch is the time on the wall and that of the processor.
type stopwatch struct {
	wall      time.Time
	processor float64
}

func processor() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func startWatch() stopwatch { return stopwatch{time.Now(), processor()} }

func (s stopwatch) stop() answer {
	return answer{Seconds: time.Since(s.wall).Seconds(), Processor: processor() - s.processor}
}

func message(kind string, n int) []complex128 {
	m := make([]complex128, n)
	for j := range m {
		ramp := 2*float64(j)/float64(n-1) - 1
		switch kind {
		case "ones":
			m[j] = 1
		case "signs":
			m[j] = complex(float64(2*(j%2)-1), 0)
		case "complex":
			m[j] = cmplx.Rect(ramp, 2*math.Pi*float64(j*7%n)/float64(n))
		default:
			m[j] = complex(ramp, 0)
		}
	}
	return m
}

func (w *worker) encrypt(m []complex128, level int) (*rlwe.Ciphertext, error) {
	plain := ckks.NewPlaintext(w.params, level)
	if err := w.encoder.Encode(m, plain); err != nil {
		return nil, err
	}
	return w.encryptor.EncryptNew(plain)
}

func (w *worker) decrypt(x *rlwe.Ciphertext) ([]complex128, error) {
	m := make([]complex128, w.params.MaxSlots())
	return m, w.encoder.Decode(w.decryptor.DecryptNew(x), m)
}

// check decrypts x and adds its errors to the times of a.
func (w *worker) check(a answer, x *rlwe.Ciphertext, wanted []complex128) (answer, error) {
	got, err := w.decrypt(x)
	if err != nil {
		return a, err
	}
	return errorsOf(a, got, wanted, x.Level()), nil
}

func errorsOf(a answer, got, wanted []complex128, level int) answer {
	a.Level = level
	for j := range wanted {
		e := cmplx.Abs(got[j] - wanted[j])
		a.Mean += e / float64(len(wanted))
		a.Max = max(a.Max, e)
	}
	return a
}

func (w *worker) together(count int, kind string) (answer, error) {
	m := message(kind, w.params.MaxSlots())
	x, err := w.encrypt(m, 0)
	if err != nil {
		return answer{}, err
	}
	in, out, failed := make([]*rlwe.Ciphertext, count), make([]*rlwe.Ciphertext, count), make([]error, count)
	for k := range in {
		in[k] = x.CopyNew()
	}
	// The garbage of earlier runs is collected before the clock starts.
	runtime.GC()
	start := startWatch()
	var group sync.WaitGroup
	for k := 1; k < count; k++ {
		group.Add(1)
		go func() {
			defer group.Done()
			out[k], failed[k] = w.bootstrap.Bootstrap(in[k])
		}()
	}
	out[0], failed[0] = w.bootstrap.Bootstrap(in[0])
	group.Wait()
	a := start.stop()
	a.Seconds, a.Processor = a.Seconds/float64(count), a.Processor/float64(count)
	for k := range out {
		if failed[k] != nil {
			return answer{}, failed[k]
		}
	}
	return w.check(a, out[count-1], m)
}

func (w *worker) basic(operation string) (a answer, err error) {
	m, top := message("ramp", w.params.MaxSlots()), w.params.MaxLevel()
	start := startWatch()
	x, err := w.encrypt(m, top)
	a = start.stop()
	if err != nil {
		return a, err
	}
	if operation == "encrypt" {
		return w.check(a, x, m)
	}
	wanted, y := make([]complex128, len(m)), x
	start = startWatch()
	switch operation {
	case "decrypt":
		got, err := w.decrypt(x)
		return errorsOf(start.stop(), got, m, top), err
	case "multiply":
		if y, err = w.evaluator.MulRelinNew(x, x); err == nil {
			err = w.evaluator.Rescale(y, y)
		}
	case "rotate":
		y, err = w.evaluator.RotateNew(x, 1)
	}
	a = start.stop()
	for j := range m {
		if wanted[j] = m[(j+1)%len(m)]; operation == "multiply" {
			wanted[j] = m[j] * m[j]
		}
	}
	if err != nil {
		return a, err
	}
	return w.check(a, y, wanted)
}

func (w *worker) run(line string) (any, error) {
	words := strings.Fields(line)
	switch {
	case len(words) == 2 && words[0] == "threads":
		count, err := strconv.Atoi(words[1])
		runtime.GOMAXPROCS(count)
		return struct{}{}, err
	case len(words) == 2 && words[0] == "bootstrap":
		return w.together(1, words[1])
	case len(words) == 3 && words[0] == "together":
		count, err := strconv.Atoi(words[1])
		if err != nil || count < 1 {
			return answer{}, fmt.Errorf("together: %q is not a count", words[1])
		}
		return w.together(count, words[2])
	case len(words) == 1 && strings.Contains(" multiply rotate encrypt decrypt ", " "+words[0]+" "):
		return w.basic(words[0])
	}
	return answer{}, fmt.Errorf("unknown command %q", line)
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if strings.HasPrefix(d.Path, "github.com/tuneinsight/lattigo") {
				return d.Version
			}
		}
	}
	return "unknown"
}

// start makes the keys; what it returns besides is the first line of output.
func start(logN int) (*worker, map[string]any, error) {
	set := bootstrapping.N16QP1546H192H32
	set.SchemeParams.LogN = logN
	params, err := ckks.NewParametersFromLiteral(set.SchemeParams)
	if err != nil {
		return nil, nil, err
	}
	literal := set.BootstrappingParams
	literal.LogN, literal.LogP, literal.Xs = &logN, set.SchemeParams.LogP, set.SchemeParams.Xs
	btp, err := bootstrapping.NewParametersFromLiteral(params, literal)
	if err != nil {
		return nil, nil, err
	}
	// As the library's own example does for fewer slots.
	btp.Mod1ParametersLiteral.LogMessageRatio += 16 - logN
	begun := time.Now()
	keygen := rlwe.NewKeyGenerator(params)
	secret := keygen.GenSecretKeyNew()
	keys, _, err := btp.GenEvaluationKeys(secret)
	if err != nil {
		return nil, nil, err
	}
	seconds := time.Since(begun).Seconds()
	evaluator, err := bootstrapping.NewEvaluator(btp, keys)
	if err != nil {
		return nil, nil, err
	}
	own := rlwe.NewMemEvaluationKeySet(keygen.GenRelinearizationKeyNew(secret),
		keygen.GenGaloisKeyNew(params.GaloisElement(1), secret))
	w := &worker{params, ckks.NewEncoder(params), rlwe.NewEncryptor(params, secret),
		rlwe.NewDecryptor(params, secret), ckks.NewEvaluator(params, own), evaluator}
	bytes := keys.BinarySize()
	return w, map[string]any{
		"name": "lattigo", "version": version(), "params": "N16QP1546H192H32", "log2_degree": logN,
		"slots": params.MaxSlots(), "log2_modulus": btp.BootstrappingParameters.LogQP(), "weight": 192,
		"ephemeral_weight": btp.EphemeralSecretWeight, "ephemeral_log2_modulus": 121, "log2_pfail": -138.7,
		"levels": params.MaxLevel(), "key_bytes": bytes, "stored_key_bytes": bytes, "keygen_seconds": seconds,
	}, nil
}

func main() {
	logN := flag.Int("log2-degree", 16, "log2 of the degree of the ring")
	flag.Parse()
	// Keys are most of the heap and hold no pointers: collecting often costs little and halves the peak.
	debug.SetGCPercent(10)
	out := json.NewEncoder(os.Stdout)
	say := func(value any, err error) {
		if err != nil {
			value = map[string]string{"error": err.Error()}
		}
		if out.Encode(value) != nil {
			os.Exit(1)
		}
	}
	w, ready, err := start(*logN)
	say(ready, err)
	if err != nil {
		os.Exit(1)
	}
	debug.FreeOSMemory()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		a, err := w.run(lines.Text())
		say(a, err)
	}
}
