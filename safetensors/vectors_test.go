package safetensors_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ckpt-surgery/ckpt/safetensors"
)

// reference gives our class for each error of the reference crate.
var reference = map[string]safetensors.Class{
	"HeaderTooSmall":               safetensors.HeaderTooSmall,
	"HeaderTooLarge":               safetensors.HeaderTooLarge,
	"InvalidHeaderLength":          safetensors.HeaderLength,
	"InvalidHeader":                safetensors.HeaderUTF8,
	"InvalidHeaderDeserialization": safetensors.HeaderSyntax,
	"InvalidOffset":                safetensors.TensorOffset,
	"TensorInvalidInfo":            safetensors.TensorSize,
	"ValidationOverflow":           safetensors.TensorOverflow,
	"MisalignedSlice":              safetensors.TensorBits,
	"MetadataIncompleteBuffer":     safetensors.WrongLength,
}

// declared are the vectors on which we differ from the reference on purpose; ""
// is a file that opens here.
var declared = map[string]safetensors.Class{
	// Stricter: what one reader takes from the first entry, another takes from the last.
	"C01_dup_tensor_same":                 safetensors.DuplicateName,
	"C03_dup_tensor_first_valid_last_bad": safetensors.DuplicateName,
	"C07_dup_via_escape":                  safetensors.DuplicateName,
	// Stricter: accidents of the reference's deserializer, no writer makes them.
	"E05_info_as_array": safetensors.HeaderSyntax,
	"E11_dtype_as_map":  safetensors.HeaderSyntax,
	// Looser: an unknown dtype is listed, copied and hashed.
	"E08_dtype_lower":        "",
	"E09_dtype_unknown":      "",
	"I_BOOLEAN_unknown":      "",
	"I_C128_unknown":         "",
	"I_F128_unknown":         "",
	"I_F4_E2M1FN_X2_unknown": "",
	"I_F4_E2M1_unknown":      "",
	"I_F8_E4M3FN_unknown":    "",
	"I_F8_unknown":           "",
	"I_I4_unknown":           "",
	"I_NVFP4_unknown":        "",
	"I_U1_unknown":           "",
	"I_U4_unknown":           "",
}

const vectorDir = "testdata/vectors"

// verdicts reads the reference's verdict on each vector: a class, or "" for OK.
func verdicts(t testing.TB) map[string]safetensors.Class {
	text, err := os.ReadFile(filepath.Join(vectorDir, "verdicts.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]safetensors.Class{}
	for line := range strings.Lines(string(text)) {
		name, verdict, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			t.Fatalf("verdicts.tsv: %q", line)
		}
		variant, bad := strings.CutPrefix(verdict, "ERR ")
		switch class, known := reference[variant]; {
		case !bad && verdict == "OK":
			out[name] = ""
		case !known:
			t.Fatalf("verdicts.tsv: %q", line)
		default:
			out[name] = class
		}
	}
	return out
}

func TestVectors(t *testing.T) {
	want := verdicts(t)
	files, _ := filepath.Glob(filepath.Join(vectorDir, "*.safetensors"))
	if len(files) < 131 || len(files) != len(want) {
		t.Fatalf("%d vectors, %d verdicts", len(files), len(want))
	}
	for name := range declared {
		if _, ok := want[name]; !ok {
			t.Errorf("declared difference %s is no vector", name)
		}
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".safetensors")
		t.Run(name, func(t *testing.T) {
			class, ok := want[name]
			if !ok {
				t.Fatal("no verdict")
			}
			if d, ok := declared[name]; ok {
				if d == class {
					t.Fatalf("declared as a difference, but the reference agrees: %q", class)
				}
				class = d
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f, err := safetensors.Open(file)
			if err == nil {
				defer f.Close()
			}
			_, err2 := safetensors.NewFile(bytes.NewReader(data), int64(len(data)))
			for _, err := range []error{err, err2} {
				if class == "" {
					if err != nil {
						t.Fatalf("refused: %v", err)
					}
					continue
				}
				if !errors.Is(err, class) {
					t.Fatalf("got %v, want class %q", err, class)
				}
				var e *safetensors.Error
				if !errors.As(err, &e) || e.Offset < 0 || e.Offset > int64(len(data)) && e.Class != safetensors.WrongLength {
					t.Errorf("error without a place in the file: %+v", e)
				}
			}
		})
	}
}
