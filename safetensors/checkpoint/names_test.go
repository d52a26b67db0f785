package checkpoint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParseWeightName(t *testing.T) {
	for name, want := range map[string]weightName{
		"model.safetensors":                               {stem: "model"},
		"model.fp16.safetensors":                          {stem: "model", variant: "fp16"},
		"model-00001-of-00002.safetensors":                {stem: "model", part: 1, of: 2, digits: 5},
		"model-00001-of-00002.fp16.safetensors":           {stem: "model", variant: "fp16", late: true, part: 1, of: 2, digits: 5},
		"model.fp16-00001-of-00002.safetensors":           {stem: "model", variant: "fp16", part: 1, of: 2, digits: 5},
		"a.b.fp16-00001-of-00002.safetensors":             {stem: "a.b", variant: "fp16", part: 1, of: 2, digits: 5},
		"model.x-00001-of-00002.fp16.safetensors":         {stem: "model.x", variant: "fp16", late: true, part: 1, of: 2, digits: 5},
		"model-00000-of-00002.safetensors":                {stem: "model", part: 0, of: 2, digits: 5},
		"model-001-of-163.safetensors":                    {stem: "model", part: 1, of: 163, digits: 3},
		"model-000000001-of-999999999.safetensors":        {stem: "model", part: 1, of: 999_999_999, digits: 9},
		"model-0000000001-of-0000000002.safetensors":      {stem: "model-0000000001-of-0000000002"},
		"model-1-of-2.safetensors":                        {stem: "model-1-of-2"},
		"model-00001-of-00002-x.safetensors":              {stem: "model-00001-of-00002-x"},
		"model-00001-of-00002-00003-of-00004.safetensors": {stem: "model-00001-of-00002", part: 3, of: 4, digits: 5},
		"sub/model-00001-of-00002.safetensors":            {stem: "sub/model", part: 1, of: 2, digits: 5},
		".safetensors":                                    {},
		".hidden.safetensors":                             {stem: ".hidden"},
		"model..safetensors":                              {stem: "model"},
		"-00001-of-00002.safetensors":                     {part: 1, of: 2, digits: 5},
		"model-00001-of-00002.a.b.safetensors":            {stem: "model-00001-of-00002.a", variant: "b"},
	} {
		if got := parseWeightName(name); got != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, want)
		}
		if w := parseWeightName(name); w.of > 0 && w.name(w.part) != name {
			t.Errorf("%s is spelt %s", name, w.name(w.part))
		}
	}
}

func TestIndexVariant(t *testing.T) {
	for name, want := range map[string]string{
		"model.safetensors.index.json":                           "",
		"diffusion_pytorch_model.safetensors.index.bf16.json":    "bf16",
		"consolidated.safetensors.index.json":                    "",
		"model.safetensors":                                      "no",
		"model.safetensors.index":                                "no",
		"model.safetensors.index.json.bak":                       "no",
		"model.safetensors.index.json.lock":                      "no",
		"model.fp16.safetensors.index.json":                      "",
		"pytorch_model.bin.index.json":                           "no",
		"config.json":                                            "no",
		"":                                                       "no",
		"model-00001-of-00002.safetensors.index.fp16.json":       "fp16",
		"diffusion_pytorch_model.safetensors.index.bf16.json.gz": "no",
	} {
		variant, ok := indexVariant(name)
		if !ok {
			variant = "no"
		}
		if variant != want {
			t.Errorf("%s: %q, want %q", name, variant, want)
		}
	}
}

// TestPlanLayout gives a directory's names and wants the index, the weights and
// the shadow, each as a list of words.
func TestPlanLayout(t *testing.T) {
	const (
		hf    = "model.safetensors.index.json"
		other = "custom.safetensors.index.json"
		dit   = "diffusion_pytorch_model.safetensors.index"
		cons  = "consolidated.safetensors.index.json"
	)
	for _, test := range []struct{ names, index, weights, shadow string }{
		{"", "", "", ""},
		{"config.json README.md pytorch_model.bin model.safetensors.lock", "", "", ""},
		{"model.safetensors", "", "model.safetensors", ""},
		{"b.safetensors a10.safetensors a9.safetensors", "", "a9.safetensors a10.safetensors b.safetensors", ""},
		{hf, hf, "", ""},
		{other + " " + hf + " b.safetensors", hf, "b.safetensors", ""},
		{dit + ".json " + other, dit + ".json", "", ""},
		{"b.safetensors.index.json " + other, "b.safetensors.index.json", "", ""},
		{dit + ".bf16.json " + dit + ".json", dit + ".json", "", ""},
		{dit + ".fp16.json " + dit + ".bf16.json", dit + ".bf16.json", "", ""},
		{dit + ".bf16.json " + other, other, "", ""},
		// A variant's index does not go before the plain weights.
		{dit + ".bf16.json diffusion_pytorch_model.safetensors", "", "diffusion_pytorch_model.safetensors", ""},
		{dit + ".bf16.json diffusion_pytorch_model-00001-of-00002.safetensors", "", "diffusion_pytorch_model-00001-of-00002.safetensors", ""},
		{dit + ".bf16.json model.safetensors", dit + ".bf16.json", "model.safetensors", ""},
		{dit + ".bf16.json diffusion_pytorch_model.bf16.safetensors", dit + ".bf16.json", "diffusion_pytorch_model.bf16.safetensors", ""},
		// Mistral.
		{"consolidated.safetensors params.json", "", "consolidated.safetensors", ""},
		{"consolidated-00001-of-00002.safetensors " + cons, cons, "consolidated-00001-of-00002.safetensors", ""},
		{"consolidated.safetensors model.safetensors", "", "model.safetensors", "consolidated.safetensors"},
		{"consolidated-00001-of-00001.safetensors " + cons + " " + hf + " model-00001-of-00001.safetensors", hf,
			"model-00001-of-00001.safetensors", "consolidated-00001-of-00001.safetensors"},
		{"consolidated.safetensors model.safetensors " + cons, "", "model.safetensors", "consolidated.safetensors"},
		{cons + " " + hf, hf, "", ""},
		// What macOS leaves on foreign disks.
		{"._model.safetensors ._" + hf + " model.safetensors", "", "model.safetensors", ""},
		{"._a.safetensors.index.json b.safetensors.index.json", "b.safetensors.index.json", "", ""},
	} {
		l := planLayout(strings.Fields(test.names))
		if l.index != test.index || strings.Join(l.weights, " ") != test.weights || strings.Join(l.shadow, " ") != test.shadow {
			t.Errorf("%s\ngot  %+v\nwant %+v", test.names, l, test)
		}
	}
}

func TestOtherVariants(t *testing.T) {
	for names, want := range map[string]string{
		"":                                            "",
		"x.safetensors y.safetensors":                 "",
		"x.fp16.safetensors":                          "",
		"x.fp16.safetensors x.bf16.safetensors":       "",
		"x.fp16.safetensors x.safetensors":            "x.fp16.safetensors",
		"x.fp16.safetensors y.safetensors":            "",
		"x-001-of-002.safetensors x.bf16.safetensors": "x.bf16.safetensors",
		"x.safetensors x.mtp.safetensors":             "",
		"x.safetensors x.int8-001-of-001.safetensors x-001-of-001.ema.safetensors": "x.int8-001-of-001.safetensors x-001-of-001.ema.safetensors",
	} {
		if got := strings.Join(otherVariants(strings.Fields(names)), " "); got != want {
			t.Errorf("%s: %q, want %q", names, got, want)
		}
	}
}

func TestGaps(t *testing.T) {
	for names, want := range map[string]string{
		"":                         "",
		"model.safetensors":        "",
		"m-001-of-001.safetensors": "",
		"m-00000-of-00002.safetensors m-00001-of-00002.safetensors":                              "", // counted from 0
		"m-00000-of-00002.safetensors m-00001-of-00002.safetensors m-00002-of-00002.safetensors": "", // the last is called 2 of 2
		"m-00000-of-00003.safetensors m-00002-of-00003.safetensors":                              "m-00001-of-00003.safetensors",
		"m-00001-of-00003.safetensors m-00003-of-00003.safetensors":                              "m-00002-of-00003.safetensors",
		"m-00002-of-00003.safetensors":                                                           "m-00001-of-00003.safetensors m-00003-of-00003.safetensors",
		"m-00001-of-00002.fp16.safetensors":                                                      "m-00002-of-00002.fp16.safetensors",
		"m.fp16-00001-of-00002.safetensors":                                                      "m.fp16-00002-of-00002.safetensors",
		"m-001-of-002.safetensors m-002-of-003.safetensors":                                      "m-001-of-003.safetensors m-002-of-002.safetensors m-003-of-003.safetensors",
		"m-001-of-002.safetensors n-002-of-002.safetensors":                                      "m-002-of-002.safetensors n-001-of-002.safetensors",
		"m-00001-of-00000.safetensors":                                                           "",
		"sub/m-001-of-002.safetensors":                                                           "sub/m-002-of-002.safetensors",
	} {
		if got := strings.Join(gaps(strings.Fields(names)), " "); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", names, got, want)
		}
	}
}

// TestGapsOfHostileNames has names that promise a billion files each.
func TestGapsOfHostileNames(t *testing.T) {
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("m%d-000000001-of-999999999.safetensors", i))
	}
	got := gaps(names)
	if len(got) != maxGaps || got[0] != "m0-000000002-of-999999999.safetensors" {
		t.Errorf("%d names, the first %q", len(got), got[0])
	}
	if again := gaps(names); !slices.Equal(got, again) {
		t.Error("the names change from run to run")
	}
}

func TestHubRepository(t *testing.T) {
	for path, want := range map[string]string{
		"/hub/models--org--name/snapshots/abc":             "/hub/models--org--name",
		"/hub/datasets--org--name/snapshots/abc":           "/hub/datasets--org--name",
		"/hub/models--org--name/snapshots/abc/transformer": "/hub/models--org--name",
		"/hub/models--org--name/snapshots":                 "",
		"/hub/models--org--name":                           "",
		"/data/snapshots/abc":                              "",
		"/data/my--models/snapshots/abc":                   "",
		"/data/models/snapshots/abc":                       "",
		"/snapshots/abc":                                   "",
		"/":                                                "",
	} {
		repo, ok := hubRepository(path)
		if !ok {
			repo = ""
		}
		if repo != want {
			t.Errorf("%s: %q, want %q", path, repo, want)
		}
	}
}

// hostileNames are names that are refused as text, with a word of the reason.
var hostileNames = map[string]string{
	"":                           "plain path",
	".":                          "plain path",
	"..":                         "plain path",
	"../x.safetensors":           "plain path",
	"./x.safetensors":            "plain path",
	"sub/../../x.safetensors":    "plain path",
	"sub/../x.safetensors":       "plain path",
	"sub//x.safetensors":         "plain path",
	"sub/":                       "plain path",
	"/":                          "absolute",
	"/etc/passwd":                "absolute",
	"//host/share/x.safetensors": "absolute",
	`C:\x.safetensors`:           "backslash",
	`C:x.safetensors`:            "drive",
	`c:/x.safetensors`:           "drive",
	`\\host\share\x.safetensors`: "backslash",
	`\x.safetensors`:             "backslash",
	`a\..\x.safetensors`:         "backslash",
	"x\x00.safetensors":          "NUL",
	"\xff.safetensors":           "plain path",
}

func TestCheckName(t *testing.T) {
	for name, says := range hostileNames {
		err := checkName(name)
		var r *refused
		if !errors.As(err, &r) || r.code != IndexPath || r.path != name || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", name, err, says)
		}
	}
	for _, name := range []string{"x", "x.safetensors", "sub/x.safetensors", "...", "..x", "a b", "é.safetensors", "x\x1b[31m\n"} {
		if err := checkName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestQuote keeps what is printed short and free of control characters.
func TestQuote(t *testing.T) {
	for name, want := range map[string]string{
		"":                        `""`,
		"a\"b":                    `"a\"b"`,
		"\x1b[31m\n\x00\u202e":    `"\x1b[31m\n\x00\u202e"`,
		strings.Repeat("n", 1024): `"` + strings.Repeat("n", 1024) + `"`,
		strings.Repeat("n", 1e6):  `"` + strings.Repeat("n", 1024) + `"… (1000000 bytes)`,
	} {
		if got := quote(name); got != want {
			t.Errorf("%.60q: %.60s", name, got)
		}
	}
}
