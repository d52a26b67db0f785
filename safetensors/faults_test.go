package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ckpt-surgery/ckpt/safetensors"
)

// length is a file's first eight bytes.
func length(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

func entry(dtype, shape, offsets string) string {
	return fmt.Sprintf(`{"dtype":%q,"shape":%s,"data_offsets":%s}`, dtype, shape, offsets)
}

// in is the byte in the file at which the last mark in the header stands.
func in(header, mark string) int64 {
	i := strings.LastIndex(header, mark)
	if i < 0 {
		panic(mark)
	}
	return int64(8 + i)
}

const lfs = "version https://git-lfs.github.com/spec/v1\n" +
	"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n" +
	"size 9976578928\n"

type fault struct {
	name   string
	file   []byte
	size   int64 // as given to NewFile; 0 for the file's length
	class  safetensors.Class
	offset int64
	tensor string
	says   []string // parts of the message
}

func faults() []fault {
	var list []fault
	add := func(name string, file []byte, class safetensors.Class, offset int64, tensor string, says ...string) {
		list = append(list, fault{name, file, 0, class, offset, tensor, says})
	}
	header := func(name, header string, data int, class safetensors.Class, mark, tensor string, says ...string) {
		add(name, frame(header, make([]byte, data)), class, in(header, mark), tensor, says...)
	}
	other := func(name, file string, says ...string) {
		add(name, []byte(file), safetensors.NotSafetensors, -1, "", says...)
	}

	other("LFS pointer", lfs, "Git LFS pointer", "to a file of 9976578928 bytes", `run "git lfs pull"`)
	other("zip", "PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00\x00\x00", "zip", "torch.save", "convert")
	other("legacy torch", "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", "pickle", "convert")
	other("pickle 4", "\x80\x04\x95\x1f\x00\x00\x00\x00\x00\x00\x00}\x94", "pickle", "convert")
	other("tiny pickle", "\x80\x02K\x01.", "pickle")
	other("GGUF", "GGUF\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "GGUF")
	other("HDF5", "\x89HDF\r\n\x1a\n\x00\x00\x00\x00", "HDF5")
	other("HTML", "<!DOCTYPE html>\n<html><title>429</title>", "HTML", "fetch the file again")
	other("HTML after a BOM", "\ufeff\n <HTML lang=en>", "HTML")
	other("XML", `<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>`, "XML")
	other("JSON", `{"error":"Invalid username or password."}`, "JSON", "Invalid username or password.")
	other("tiny JSON", `{}`, "JSON")
	other("plain text", "Entry not found\n", "Entry not found", "fetch the file again")

	add("empty", nil, safetensors.HeaderTooSmall, 0, "", "has 0 bytes", "fetch it again")
	add("7 bytes", []byte("1234567"), safetensors.HeaderTooSmall, 0, "", "has 7 bytes")
	add("7 bytes of {", length(123)[:7], safetensors.HeaderTooSmall, 0, "", "has 7 bytes")
	add("7 bytes of a pickle", length(0x280)[:7], safetensors.HeaderTooSmall, 0, "", "has 7 bytes")
	add("length over the limit", []byte("\x40\x9D\xDF\x07\x00\x00\x00\x00"), safetensors.HeaderTooLarge, 0, "",
		"132095296", "100000000", "has 8", "shards")
	add("length of 2^64-1", append(length(math.MaxUint64), "{}"...), safetensors.HeaderTooLarge, 0, "", "18446744073709551615")
	add("truncated in the header", append(length(100_000_000), "{}"...), safetensors.HeaderLength, 0, "",
		"100000000", "has 10", "truncated")
	add("truncated header of {", append(length(123), `{"t":`...), safetensors.HeaderLength, 0, "", "123", "has 13", "truncated")
	add("truncated header of a pickle", append(length(0x280), `{"t":`...), safetensors.HeaderLength, 0, "", "640", "has 13")
	add("truncated header of a pickle's start", append(length(0x600280), `{"t":`...), safetensors.HeaderLength, 0, "", "6292096", "has 13")
	add("malformed, length of {", frame(`{"t":`+strings.Repeat(" ", 118), nil), safetensors.HeaderSyntax, 8+123, "", "ends too early")
	add("malformed, length of a pickle", frame("{x"+strings.Repeat(" ", 0x27e), nil), safetensors.HeaderSyntax, 9, "", "not JSON")
	add("not UTF-8", frame("{\"\ufffd\xff\":1}", nil), safetensors.HeaderUTF8, 8+5, "")

	header("not an object", ` [{}]`, 0, safetensors.HeaderSyntax, `[`, "", "must be a JSON object")
	header("not a dtype", `{"t":{"dtype":5,"shape":[],"data_offsets":[0,0]}}`, 0, safetensors.HeaderSyntax, `5`, "t", "dtype")
	header("negative", `{"t":`+entry("U8", `[1, -2]`, `[0,0]`)+`}`, 0, safetensors.HeaderSyntax, `-2`, "t", `"-2"`, "0 to 2^64-1")
	header("three offsets", `{"t":`+entry("U8", `[0]`, `[0,0,7]`)+`}`, 0, safetensors.HeaderSyntax, `7`, "t", "two numbers")
	header("one offset", `{"t":`+entry("U8", `[0]`, `[0]`)+`}`, 0, safetensors.HeaderSyntax, `]`, "t", "two numbers")
	header("no offsets", `{"t":`+entry("U8", `[0]`, `[]`)+`}`, 0, safetensors.HeaderSyntax, `]`, "t", "two numbers")
	header("no shape", `{"t":{"dtype":"U8","data_offsets":[0,0]}}`, 0, safetensors.HeaderSyntax, `{"d`, "t", "are required")
	header("field twice", `{"t":{"dtype":"U8","dtype":"U8"}}`, 0, safetensors.HeaderSyntax, `"U8"`, "t", "twice")
	header("metadata of numbers", `{"__metadata__":{"a":1}}`, 0, safetensors.HeaderSyntax, `1`, "", "must be strings")
	header("metadata twice", `{"__metadata__":null,"__metadata__":{}}`, 0, safetensors.HeaderSyntax, `"__m`, "", "twice")
	header("control characters", "{\"\\u001b[31m\\n\":0}", 0, safetensors.HeaderSyntax, `0`, "\x1b[31m\n", `tensor "\x1b[31m\n"`)
	header("long name", `{"`+strings.Repeat("n", 64<<10)+`":0}`, 0, safetensors.HeaderSyntax, `0`, strings.Repeat("n", 64<<10),
		strings.Repeat("n", 200)+`"… (65536 bytes)`)

	twice := `{"t":` + entry("U8", `[1]`, `[0,1]`) + `,"\u0075":` + entry("U8", `[1]`, `[1,2]`) + `,`
	header("name twice", twice+`"t":`+entry("U8", `[1]`, `[2,3]`)+`}`, 3, safetensors.DuplicateName, `"t"`, "t", "[0,1] and [2,3]", "write the file again")
	header("name twice, as an escape", twice+`"\u0074":`+entry("U8", `[1]`, `[2,3]`)+`}`, 3, safetensors.DuplicateName, `"\u0074"`, "t", "[0,1] and [2,3]")
	header("name twice, both escapes", twice+`"\u0075" :`+entry("U8", `[1]`, `[2,3]`)+`}`, 3, safetensors.DuplicateName, `"\u0075"`, "u", "[1,2] and [2,3]")
	header("name twice, same as a dtype", `{"U8":`+entry("U8", `[0]`, `[0,0]`)+`,"U8" :`+entry("U8", `[0]`, `[0,0]`)+`}`, 0,
		safetensors.DuplicateName, `"U8" :`, "U8", "[0,0] and [0,0]")
	header("rank 65", `{"t":`+entry("U8", `[`+strings.Repeat("1,", 64)+` 7]`, `[0,1]`)+`}`, 1, safetensors.RankTooLarge, `7`, "t", "more than 64")

	// From here on the fault is one of the data.
	data := func(name, header string, data int, class safetensors.Class, at int64, tensor string, says ...string) {
		add(name, frame(header, make([]byte, data)), class, 8+int64(len(header))+at, tensor, says...)
	}
	three := object(u8("a", 0, 200), u8("b", 200, 260), u8("c", 260, 320))
	promised, base := fmt.Sprint(8+len(three)+320), 8+len(three)
	data("end before begin", `{"t":`+entry("U8", `[0]`, `[4,0]`)+`}`, 4, safetensors.TensorOffset, 4, "t", "[4,0]")
	data("end before begin, in its place", object(u8("a", 0, 4))[:len(object(u8("a", 0, 4)))-1]+`,"t":`+entry("U8", `[0]`, `[4,1]`)+`}`,
		4, safetensors.TensorOffset, 4, "t", "[4,1]", "ends before it begins")
	data("hole", object(u8("a", 0, 4), u8("b", 6, 8)), 8, safetensors.TensorOffset, 6, "b", "[6,8]", "ends at 4")
	data("overlap", object(u8("a", 0, 4), u8("b", 3, 8)), 8, safetensors.TensorOffset, 3, "b", "[3,8]", "ends at 4")
	data("offset past the file", object(u8("a", 1<<60, 1<<61)), 8, safetensors.TensorOffset, 0, "a", "1152921504606846976")
	data("wrong size", `{"t":`+entry("F32", `[2,3]`, `[0,20]`)+`}`, 20, safetensors.TensorSize, 0, "t", "F32 [2 3] takes 24 bytes", "hold 20")
	data("overflow", `{"t":`+entry("F32", `[4294967296,4294967296]`, `[0,4]`)+`}`, 4, safetensors.TensorOverflow, 0, "t", "F32 [4294967296 4294967296]")
	data("half a byte", `{"t":`+entry("F4", `[3]`, `[0,2]`)+`}`, 2, safetensors.TensorBits, 0, "t", "F4 [3]")
	data("100 bytes short", three, 220, safetensors.WrongLength, 220, "", "promises "+promised+" bytes", fmt.Sprint("has ", base+220),
		"100 missing", "2 of 3 tensors", `"b" … "c"`, "fetch")
	data("cut between tensors", three, 200, safetensors.WrongLength, 200, "", "120 missing", "2 of 3 tensors", `"b" … "c"`)
	data("1 byte short", three, 319, safetensors.WrongLength, 319, "", "1 missing", "1 of 3 tensors", `("c")`)
	data("1 byte too many", three, 321, safetensors.WrongLength, 320, "", "promises "+promised+" bytes", fmt.Sprint("has ", base+321),
		"1 too many")

	ends := func(name string, file []byte, more int64, says ...string) {
		list = append(list, fault{name, file, int64(len(file)) + more, safetensors.Shrunk, int64(len(file)), "", says})
	}
	ends("ends in the length", length(20)[:5], 50)
	ends("ends after the length", length(20), 50, "within the header")
	ends("ends in the header", frame(three, nil)[:60], int64(len(three)), "within the header")
	return list
}

func TestFaults(t *testing.T) {
	classes := map[safetensors.Class]bool{}
	for _, f := range faults() {
		classes[f.class] = true
		t.Run(f.name, func(t *testing.T) {
			size := f.size
			if size == 0 {
				size = int64(len(f.file))
			}
			file, err := safetensors.NewFile(bytes.NewReader(f.file), size)
			var e *safetensors.Error
			if !errors.As(err, &e) || file != nil {
				t.Fatalf("no *Error but %v", err)
			}
			if e.Class != f.class || !errors.Is(err, f.class) || e.Offset != f.offset || e.Tensor != f.tensor {
				t.Errorf("class %q, byte %d, tensor %.20q\nwant  %q, byte %d, tensor %.20q\n%v", e.Class, e.Offset, e.Tensor, f.class, f.offset, f.tensor, err)
			}
			says := append(f.says, string(f.class))
			if f.offset >= 0 {
				says = append(says, fmt.Sprintf("byte %d: ", f.offset))
			}
			for _, s := range says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%v\ndoes not say %q", err, s)
				}
			}
			if strings.ContainsAny(err.Error(), "\x1b\n") || len(err.Error()) > 600 {
				t.Errorf("not fit to print: %q", err)
			}
		})
	}
	src, err := os.ReadFile("error.go")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^\t(\w+) +Class = "(.*)"`).FindAllStringSubmatch(string(src), -1)
	if len(all) < 14 {
		t.Fatalf("%d classes in error.go", len(all))
	}
	for _, c := range all {
		if !classes[safetensors.Class(c[2])] {
			t.Errorf("class %s has no case", c[1])
		}
	}
}

func TestErrorCause(t *testing.T) {
	err := error(&safetensors.Error{Class: safetensors.HeaderSyntax, Offset: -1, Err: os.ErrDeadlineExceeded})
	if !errors.Is(err, safetensors.HeaderSyntax) || !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, safetensors.HeaderUTF8) {
		t.Errorf("%#v", err)
	}
	if want := "malformed header: " + os.ErrDeadlineExceeded.Error(); err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

// TestLengths has the numbers behind the messages.
func TestLengths(t *testing.T) {
	const each = 1<<61 - 1
	for _, test := range []struct {
		name       string
		head       []byte
		size, want int64
	}{
		{"short", frame(object(u8("t", 0, 100)), nil), 80, 100},
		{"long", frame(object(u8("t", 0, 100)), nil), 101, 100},
		{"2^63 bytes and more", frame(object(u8("a", 0, each), u8("b", each, 2*each), u8("c", 2*each, 3*each), u8("d", 3*each, 4*each)), nil), 9, -1},
	} {
		base := int64(len(test.head))
		want := test.want
		if want >= 0 {
			want += base
		}
		_, err := safetensors.NewFile(zeros{test.head}, base+test.size)
		var e *safetensors.Error
		if !errors.As(err, &e) || e.Class != safetensors.WrongLength || e.Want != want || e.Have != base+test.size {
			t.Errorf("%s: %+v, want length %d, have %d", test.name, e, want, base+test.size)
		}
	}
	if _, err := safetensors.NewFile(bytes.NewReader(nil), -1); !errors.Is(err, safetensors.HeaderTooSmall) {
		t.Errorf("a negative size: %v", err)
	}
}

// TestUnknownFields keeps the reference parser's limits in what it ignores.
func TestUnknownFields(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	for _, test := range []struct {
		value string
		says  string // "" if it opens
	}{
		{`null`, ""}, {`"\ud83d\ude00"`, ""}, {`{"dtype":1,"dtype":[{}]}`, ""}, {`[0,-0,1.5e-9999,-1e308,0e999999]`, ""},
		{deep(125), ""}, {strings.Repeat(`{"":`, 125) + `0` + strings.Repeat(`}`, 125), ""},
		{deep(126), "nested more than 127 deep"}, {deep(100_000), "nested more than 127 deep"},
		{`1e999`, "out of range"}, {`[-1e309]`, "out of range"}, {strings.Repeat("9", 400), "out of range"},
		{`01`, "not JSON"}, {`+1`, "not JSON"}, {`.5`, "not JSON"}, {`NaN`, "not JSON"}, {`"\ud800"`, "not JSON"}, {`[1,]`, "not JSON"},
	} {
		file := frame(`{"t":{"x":`+test.value+`,"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, nil)
		_, err := safetensors.NewFile(bytes.NewReader(file), int64(len(file)))
		if test.says == "" && err != nil || test.says != "" && (!errors.Is(err, safetensors.HeaderSyntax) || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%.40s: %v, want %q", test.value, err, test.says)
		}
	}
}

func TestRank64(t *testing.T) {
	shape := "[" + strings.Repeat("1,", safetensors.MaxRank-1) + "3]"
	tensor, ok := mustOpen(t, `{"t":`+entry("U8", shape, `[0,3]`)+`}`, []byte("abc")).Tensor("t")
	if !ok || len(tensor.Shape) != 64 || tensor.Shape[63] != 3 {
		t.Errorf("%+v", tensor.Info)
	}
}

// TestShrunkAfterOpen cuts a file that is open.
func TestShrunkAfterOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	data := frame(object(u8("a", 0, 10), u8("b", 10, 30)), make([]byte, 30))
	size := int64(len(data))
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, size-15); err != nil {
		t.Fatal(err)
	}
	b, _ := f.Tensor("b")
	n, err := b.ReadAt(make([]byte, 8), 2)
	var e *safetensors.Error
	if !errors.As(err, &e) {
		t.Fatalf("%d, %v", n, err)
	}
	if want := (safetensors.Error{File: path, Class: safetensors.Shrunk, Offset: size - 15, Tensor: "b", Detail: e.Detail, Want: size, Have: size - 15}); *e != want || n != 3 {
		t.Errorf("%d bytes, %+v\nwant %+v", n, *e, want)
	}
	for _, says := range []string{path, `tensor "b"`, fmt.Sprintf("byte %d", size-15), fmt.Sprintf("had %d bytes", size)} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%v\ndoes not say %q", err, says)
		}
	}
	if n, err := b.ReadAt(make([]byte, 1), 10); n != 0 || !errors.Is(err, safetensors.Shrunk) {
		t.Errorf("past the new end: %d, %v", n, err)
	}
	a, _ := f.Tensor("a")
	if _, err := a.ReadAt(make([]byte, 10), 0); err != nil {
		t.Errorf("before the new end: %v", err)
	}
}
