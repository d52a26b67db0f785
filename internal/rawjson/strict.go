package rawjson

import (
	"bytes"
	"strings"
)

const bom = "\xef\xbb\xbf"

// Strict returns text as strict JSON of the same length, so that places in it
// are places in text: a byte order mark at the start becomes white space, and
// the literals that Python writes for numbers JSON does not have (NaN, Infinity,
// -Infinity) become digits. Where Python would not read such a literal either, it
// stays, and the parser says so.
func Strict(text []byte) string {
	mark := bytes.HasPrefix(text, []byte(bom))
	if !mark && !bytes.Contains(text, []byte("NaN")) && !bytes.Contains(text, []byte("Infinity")) {
		return string(text)
	}
	b := bytes.Clone(text)
	if mark {
		copy(b, "   ")
	}
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case 'N':
			i += digits(b, i, i, "NaN")
		case 'I':
			first := i
			if i > 0 && b[i-1] == '-' {
				first--
			}
			i += digits(b, i, first, "Infinity")
		}
	}
	return string(b)
}

// digits overwrites the word at i, if it stands there, with as many digits, and
// returns the length less one. The value that it is part of begins at first and
// must have nothing else in it.
func digits(b []byte, i, first int, word string) int {
	end := i + len(word)
	if !bytes.HasPrefix(b[i:], []byte(word)) ||
		first > 0 && strings.IndexByte(blanks+"[,:", b[first-1]) < 0 ||
		end < len(b) && strings.IndexByte(blanks+"]},", b[end]) < 0 {
		return 0
	}
	for ; i < end; i++ {
		b[i] = '1'
	}
	return len(word) - 1
}
