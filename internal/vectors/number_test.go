package vectors

import (
	"math"
	"testing"
)

func TestE4M3(t *testing.T) {
	for f, want := range map[float32]byte{
		448: 0x7e, 1000: 0x7e, -1000: 0xfe, 416: 0x7d, 1: 0x38, 1.0 / 64: 0x08, 1.0 / 512: 0x01, 1.0 / 1024: 0x00, 1.5 / 512: 0x02,
		432: 0x7e, 431: 0x7d, -1.0 / 4096: 0x80, 17: 0x58, 19: 0x5a,
	} {
		if got := e4m3(f); got != want {
			t.Errorf("e4m3(%g) = %#x, want %#x", f, got, want)
		}
	}
	for code, v := range e4m3Value {
		if code&0x7f == 0x7f {
			if v == v {
				t.Errorf("code %#x is %g", code, v)
			}
		} else if got := e4m3(v); got != byte(code) {
			t.Errorf("e4m3(%g) = %#x, want %#x", v, got, code)
		}
	}
	for code := range 0x7e { // the halfway point goes to the even code
		half := (e4m3Value[code] + e4m3Value[code+1]) / 2
		if got := e4m3(half); int(got) != code+code&1 {
			t.Errorf("e4m3(%g) = %#x between %#x and the next", half, got, code)
		}
	}
}

func TestE2M1(t *testing.T) {
	for f, want := range map[float32]byte{
		0: 0, .25: 0, .26: 1, .75: 2, 1.25: 2, 1.75: 4, 2.5: 4, 3.5: 6, 5: 6, 5.1: 7, 100: 7, -.1: 8, -6: 15, -1.75: 12,
	} {
		if got := e2m1(f); got != want {
			t.Errorf("e2m1(%g) = %d, want %d", f, got, want)
		}
	}
	for code, v := range e2m1Value {
		if got := e2m1(v); int(got) != code && code != 8 {
			t.Errorf("e2m1(%g) = %d, want %d", v, got, code)
		}
	}
}

func TestHalves(t *testing.T) {
	for i := range 1 << 16 {
		b := uint16(i)
		v := math.Float32frombits(uint32(b) << 16)
		if got := bf16Bits(v); v == v && got != b {
			t.Fatalf("bf16Bits(%g) = %#x, want %#x", v, got, b)
		}
		v = f16Value(b)
		if got := f16Bits(v); v == v && got != b {
			t.Fatalf("f16Bits(%g) = %#x, want %#x", v, got, b)
		}
	}
	for _, tt := range []struct {
		f         float32
		bf16, f16 uint16
	}{
		{1, 0x3f80, 0x3c00}, {-2, 0xc000, 0xc000}, {1.00390625, 0x3f80, 0x3c04}, {1.01171875, 0x3f82, 0x3c0c}, {65519, 0x4780, 0x7bff},
		{65520, 0x4780, 0x7c00}, {float32(math.Inf(-1)), 0xff80, 0xfc00}, {0x1p-24, 0x3380, 1}, {0x1p-25, 0x3300, 0}, {0x1.8p-24, 0x33c0, 2},
	} {
		if got := bf16Bits(tt.f); got != tt.bf16 {
			t.Errorf("bf16Bits(%g) = %#x, want %#x", tt.f, got, tt.bf16)
		}
		if got := f16Bits(tt.f); got != tt.f16 {
			t.Errorf("f16Bits(%g) = %#x, want %#x", tt.f, got, tt.f16)
		}
	}
}

func TestNVFP4Global(t *testing.T) {
	for absmax, want := range map[float32]float32{0.3125: 8640, 0.7109375: 3776, 0: 1} {
		if got := nvfp4Global(absmax); got != want {
			t.Errorf("nvfp4Global(%g) = %g, want %g", absmax, got, want)
		}
	}
}
