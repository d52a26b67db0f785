package safetensors

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// identify says what a file is that failed to open as safetensors, and what to
// do about it; "" if it shows no sign of being anything else.
func identify(r io.ReaderAt, size int64) string {
	head := make([]byte, min(max(size, 0), 512))
	n, _ := r.ReadAt(head, 0)
	head = head[:n]
	text := strings.ToLower(strings.TrimLeft(string(head), " \t\r\n\ufeff"))
	switch {
	case bytes.HasPrefix(head, []byte("version https://git-lfs.github.com/spec/")):
		return lfsPointer(string(head))
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return "a zip archive, as torch.save writes (a pickle inside); convert it with safetensors' own converter"
	case n > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5 && head[2] >= ' ': // then an opcode
		return "a Python pickle, as old torch.save writes; convert it with safetensors' own converter"
	case bytes.HasPrefix(head, []byte("GGUF")):
		return "a GGUF file (llama.cpp)"
	case bytes.HasPrefix(head, []byte("\x89HDF\r\n")):
		return "an HDF5 file (Keras)"
	case strings.HasPrefix(text, "<!doctype"), strings.HasPrefix(text, "<html"), strings.HasPrefix(text, "<?xml"), strings.HasPrefix(text, "<error"):
		return "an HTML or XML page, most likely a download's error page; fetch the file again"
	case text != "" && printable(head):
		what := "text"
		if strings.ContainsAny(text[:1], "{[") {
			what = "JSON text"
		} else if n < 8 {
			return ""
		}
		return fmt.Sprintf("%s, most likely a download's error message: %.80q; fetch the file again", what, string(head))
	}
	return ""
}

// printable reports whether a file begins with a line of text.
func printable(head []byte) bool {
	head = head[:min(len(head), 64)]
	for len(head) > 60 && !utf8.Valid(head) { // the cut may have gone through a character
		head = head[:len(head)-1]
	}
	return utf8.Valid(head) && !bytes.ContainsFunc(head, func(r rune) bool {
		return r < ' ' && !strings.ContainsRune("\t\r\n", r) || r == 0x7F
	})
}

// lfsPointer explains a Git LFS pointer file: three lines, the last two of them
// "oid sha256:<hex>" and "size <bytes>".
func lfsPointer(text string) string {
	what := "a Git LFS pointer"
	for line := range strings.Lines(text) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == "size" {
			what += fmt.Sprintf(" to a file of %.20q bytes", value)
		}
	}
	return strings.ReplaceAll(what, `"`, "") + `; run "git lfs pull"`
}
