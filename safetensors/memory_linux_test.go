//go:build linux && big && !race

package safetensors_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ckpt-surgery/ckpt/safetensors"
)

// full makes a header just under the limit: open, as many items as fit, close.
// Items come with their number in 64 digits, which keeps them short and distinct.
func full(open string, item func(b []byte, number string) []byte, close string) []byte {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	b := append(make([]byte, 0, safetensors.MaxHeader+1000), open...)
	var number []byte
	for n := 0; ; n++ {
		number = number[:0]
		for rest := n; rest > 0 || len(number) == 0; rest >>= 6 {
			number = append(number, digits[rest&63])
		}
		end := len(b)
		if n > 0 {
			b = append(b, ',')
		}
		if b = item(b, string(number)); len(b)+len(close) > safetensors.MaxHeader {
			return append(b[:end], close...)
		}
	}
}

// filled makes a header just under the limit: open, a text over and over, close.
func filled(open, text, close string) []byte {
	n := (safetensors.MaxHeader - len(open) - len(close)) / len(text)
	return []byte(open + strings.Repeat(text, n) + close)
}

// list gives items that are all the same.
func list(item string) func([]byte, string) []byte {
	return func(b []byte, _ string) []byte { return append(b, item...) }
}

// named gives items with their number between before and after.
func named(before, after string) func([]byte, string) []byte {
	return func(b []byte, number string) []byte { return append(append(append(b, before...), number...), after...) }
}

const (
	junk    = `{"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"j":`
	fields  = `{"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0],`
	zeroDim = `{"dtype":"","shape":[],"data_offsets":[0,0]}` // the shortest entry
)

// bombs are headers that open (or, where a class is given, do not) and are made
// to cost as much as they can.
var bombs = []struct {
	name   string
	class  safetensors.Class
	header func() []byte
}{
	{"realistic", "", func() []byte { return realisticHeader(100_000)[8:] }},
	{"empty tensors", "", func() []byte { return full("{", named(`"`, `":`+zeroDim), "}") }},
	{"empty tensors, not counted ahead", "", func() []byte {
		return full("{", named(`"`, `":{"dtype":"","shape":[],"data_offset\u0073":[0,0]}`), "}")
	}},
	{"names with escapes", "", func() []byte { return full("{", named(`"\n`, `":`+zeroDim), "}") }},
	{"names with escapes, not counted ahead", "", func() []byte {
		return full("{", named(`"\n`, `":{"dtype":"","shape":[],"data_offset\u0073":[0,0]}`), "}")
	}},
	{"distinct unknown dtypes with escapes", "", func() []byte {
		return full("{", func(b []byte, n string) []byte {
			return append(b, `"`+n+`":{"dtype":"\n`+n+`","shape":[],"data_offsets":[0,0]}`...)
		}, "}")
	}},
	{"shapes of 64 dimensions", "", func() []byte {
		return full("{", named(`"`, `":{"dtype":"U8","shape":[`+strings.Repeat("0,", 63)+`0],"data_offsets":[0,0]}`), "}")
	}},
	{"one shape of 50 million dimensions", safetensors.RankTooLarge, func() []byte {
		return full(`{"t":{"dtype":"U8","shape":[`, list("1"), `],"data_offsets":[0,1]}}`)
	}},
	{"one name two million times", safetensors.DuplicateName, func() []byte { return full("{", list(`"":`+zeroDim), "}") }},
	{"junk fields of one name", "", func() []byte { return full(fields, list(`"a":0`), "}}") }},
	{"junk fields of distinct names", "", func() []byte { return full(fields, named(`"`, `":0`), "}}") }},
	{"junk fields of distinct names with escapes", "", func() []byte { return full(fields, named(`"\n`, `":0`), "}}") }},
	{"junk numbers", "", func() []byte { return full(junk+"[", list("0"), "]}}") }},
	{"junk arrays", "", func() []byte { return full(junk+"[", list("[]"), "]}}") }},
	{"junk arrays, deep", "", func() []byte {
		return full(junk+"[", list(strings.Repeat("[", 120)+strings.Repeat("]", 120)), "]}}")
	}},
	{"junk text that looks like entries", "", func() []byte { return full(junk+"[", list(`"data_offsets"`), "]}}") }},
	{"metadata of many keys", "", func() []byte { return full(`{"__metadata__":{`, named(`"\n`, `":""`), "}}") }},
	{"one junk string", "", func() []byte { return filled(junk+`"`, "x", `"}}`) }},
	{"one junk string of escapes", "", func() []byte { return filled(junk+`"`, `\n`, `"}}`) }},
	{"one junk number", "", func() []byte { return filled(junk+`0.`, `0`, `}}`) }},
	{"one field's name, escaped", "", func() []byte { return filled(fields+`"\n`, "x", `":0}}`) }},
	{"one tensor's name, escaped", "", func() []byte { return filled(`{"\n`, "x", `":`+zeroDim+`}`) }},
	{"one name and one dtype, escaped", "", func() []byte {
		half := strings.Repeat("x", safetensors.MaxHeader/2-50)
		return []byte(`{"\n` + half + `":{"dtype":"\n` + half + `","shape":[],"data_offsets":[0,0]}}`)
	}},
	{"room for the most entries, then one name", "", func() []byte {
		count := safetensors.MaxHeader / len(`"":`+zeroDim)
		return filled(`{"t":{"dtype":"U8","shape":[0],"j":[`+strings.Repeat(`"data_offsets",`, count)+
			`0],"data_offsets":[0,0]},"\n`, "x", `":`+zeroDim+`}`)
	}},
	{"one white space", "", func() []byte { return filled(`{`, " ", `}`) }},
}

const memoryFile = "SAFETENSORS_TEST_MEMORY_FILE"

// TestMemory opens each bomb in a process of its own and holds the growth of the
// process to six times the header and 32 MiB.
func TestMemory(t *testing.T) {
	if path := os.Getenv(memoryFile); path != "" {
		measure(path)
	}
	for _, bomb := range bombs {
		t.Run(bomb.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bomb.safetensors")
			header := bomb.header()
			file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
			if err := os.WriteFile(path, file, 0o666); err != nil {
				t.Fatal(err)
			}
			if bomb.name == "realistic" {
				if err := os.Truncate(path, int64(len(file))+100_000*4096*112*2); err != nil {
					t.Fatal(err)
				}
			} else if len(header) > safetensors.MaxHeader || len(header) < safetensors.MaxHeader-1000 {
				t.Fatalf("a header of %d bytes", len(header))
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestMemory$")
			cmd.Env = append(os.Environ(), memoryFile+"="+path)
			out, err := cmd.CombinedOutput()
			os.Remove(path)
			var growth int64
			var took time.Duration
			var class string
			if _, serr := fmt.Sscanf(string(out), "%d %d %q", &growth, &took, &class); err != nil || serr != nil {
				t.Fatalf("%v, %v: %s", err, serr, out)
			}
			if class != string(bomb.class) {
				t.Errorf("got %q, want %q", class, bomb.class)
			}
			t.Logf("%.2f of the header's %d bytes, %v", float64(growth)/float64(len(header)), len(header), took.Round(time.Millisecond))
			if most := 6*int64(len(header)) + 32<<20; growth > most {
				t.Errorf("grew by %d bytes, more than %d", growth, most)
			}
		})
	}
}

// measure opens the file and prints by how much the process grew, how long it
// took and the class of the error, if any.
func measure(path string) {
	before, start := status("VmRSS"), time.Now()
	f, err := safetensors.Open(path)
	took := time.Since(start)
	growth := status("VmHWM") - before
	runtime.KeepAlive(f)
	class := ""
	if e, ok := errors.AsType[*safetensors.Error](err); ok {
		class = string(e.Class)
	} else if err != nil {
		class = err.Error()
	}
	fmt.Printf("%d %d %q\n", growth, took, class)
	os.Exit(0)
}

// status reads a field of /proc/self/status that is in kB.
func status(field string) int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	_, rest, _ := strings.Cut(string(text), field+":")
	value, _, ok := strings.Cut(strings.TrimSpace(rest), " kB")
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || !ok {
		panic(fmt.Sprint(field, ": ", value))
	}
	return n << 10
}
