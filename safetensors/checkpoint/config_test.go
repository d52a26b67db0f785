package checkpoint_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

func TestConfig(t *testing.T) {
	vision := string(vectors.JSON(vectors.T2().Config))
	if !strings.Contains(vision, `"text_config"`) {
		t.Fatal("T2 has no text_config")
	}
	for _, test := range []struct {
		name, text string
		want       string // what Config gives; the text if empty
	}{
		{"nested", vision, ""},
		{"bytes are kept", "{ \"b\":1.50,\t\"a\": 1e2,\r\n \"a\":\"\\u00e9\" }\n", ""},
		{"no NaN", `{"a":"NaN","Infinity":"-Infinity","x\"NaN":"\\"}`, ""},
		{"NaN", `{"a":NaN,"b":[Infinity,-Infinity, NaN],"c":{"d":NaN}}`, `{"a":111,"b":[11111111,-11111111, 111],"c":{"d":111}}`},
		{"NaN beside text", `{"NaN":NaN,"a\"":NaN,"b\\":NaN,"Infinity":Infinity}`, `{"NaN":111,"a\"":111,"b\\":111,"Infinity":11111111}`},
		{"NaN alone", `NaN`, `111`},
		{"names twice", `{"a":1,"a":2}`, ""},
		{"no object", `[]`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := with(vectors.T0(), map[string][]byte{"config.json": []byte(test.text)})
			bothWays(t, m, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
				if err != nil {
					t.Fatal(err)
				}
				expect(t, c)
				want := test.want
				if want == "" {
					want = test.text
				}
				if string(c.Config()) != want || !json.Valid(c.Config()) {
					t.Errorf("got  %s\nwant %s", c.Config(), want)
				}
			})
		})
	}
}

func TestMalformedConfig(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "white space": " \n", "cut": `{"a":`, "cut in a string": `{"a":"NaN`, "cut in an escape": `{"a":NaN,"b\`, "two values": "{}{}", "trailing comma": `{"a":1,}`,
		"comment": "// NaN\n{}", "not NaN": `{"a":NaNs}`, "not Infinity": `{"a":+Infinity}`, "minus NaN": `{"a":-NaN}`, "bytes": "\xff\xfe{}", "bad UTF-8": "{\"a\":\"\xff\"}",
		"BOM": "\ufeff{}", "single quotes": `{'a':1}`, "LFS pointer": "version https://git-lfs.github.com/spec/v1\n", "deep": strings.Repeat("[", 1e6),
	} {
		m := with(vectors.T0(), map[string][]byte{"config.json": []byte(text)})
		t.Run(name, func(t *testing.T) {
			bothWays(t, m, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
				if err != nil {
					t.Fatal(err)
				}
				expect(t, c, want{checkpoint.ConfigMalformed, checkpoint.Fatal, "config.json", nil, errAny, []string{"not JSON", "restore config.json"}})
				if c.Config() != nil {
					t.Errorf("Config is %q", c.Config())
				}
			})
		})
	}
}

func TestNoConfig(t *testing.T) {
	m := vectors.T0()
	m.Config = nil
	bothWays(t, m, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c)
		if c.Config() != nil {
			t.Errorf("Config is %q", c.Config())
		}
	})
}
