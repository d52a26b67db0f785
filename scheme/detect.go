package scheme

import (
	"encoding/binary"
	"fmt"
	"strings"

	st "github.com/ckpt-surgery/ckpt/safetensors"
)

// Containers: whose spelling and arithmetic a module's tensors follow.
const (
	CompressedTensors = "compressed-tensors"
	ModelOpt          = "modelopt"
	BlockFP8          = "fp8"          // DeepSeek's: weight_scale_inv, and V4's scale
	GPTOSS            = "mxfp4"        // gpt-oss: _blocks and _scales
	GPTQ              = "gptq"         // named, not read
	AWQ               = "awq"          // named, not read
	BitsAndBytes      = "bitsandbytes" // named, not read
)

// Detected is a module's scheme as its tensors tell it. The zero value is a
// module without weights.
type Detected struct {
	Container string   // "" if the weights are plain
	Format    string   // compressed-tensors' format or ModelOpt's quant_algo; "" if there is none
	DType     st.DType // of the stored weight or packed codes
	Bits      int      // of one weight, 0 if unknown
	Float     bool     // codes are floating point
	Strategy  string   // tensor, channel, group, tensor_group, block; "" if unknown
	Group     uint64   // columns that share a scale, for group and tensor_group
	Block     [2]uint64
	Static    bool // static activation scales are stored
	Missing   Part // a part without which the codes mean nothing, "" if all are there

	columns uint64 // logical columns of packed codes, where they are stored
}

// Quantized reports whether the module's weights are codes.
func (d Detected) Quantized() bool { return d.Container != "" }

// String describes the scheme for a person.
func (d Detected) String() string {
	if !d.Quantized() {
		if d.DType == "" {
			return "-"
		}
		s := string(d.DType)
		if d.Missing != "" {
			s += " (no " + string(d.Missing) + ")"
		}
		return s
	}
	var b strings.Builder
	b.WriteString(d.Container)
	if d.Format != "" {
		b.WriteString(" " + d.Format)
	}
	kind := "int"
	if d.Float {
		kind = "fp"
	}
	if d.Bits > 0 {
		fmt.Fprintf(&b, " %s%d", kind, d.Bits)
	}
	switch {
	case d.Group > 0:
		fmt.Fprintf(&b, " group %d", d.Group)
	case d.Block[0] > 0:
		fmt.Fprintf(&b, " block %dx%d", d.Block[0], d.Block[1])
	case d.Strategy != "":
		b.WriteString(" " + d.Strategy)
	}
	if d.Static {
		b.WriteString(", static activations")
	}
	if d.Missing != "" {
		b.WriteString(", no " + string(d.Missing))
	}
	return b.String()
}

// Detect reads the module's scheme from the tensors present.
func (m *Module) Detect() Detected {
	packed, weight, scale := m.Get(Packed), m.Get(Weight), m.Get(Scale)
	d := Detected{Static: m.Get(InputScale) != nil || m.Get(InputGlobalScale) != nil}
	switch {
	case m.Get(Codebook) != nil:
		d.Container = BitsAndBytes
		if weight != nil {
			d.DType = weight.DType
		}
	case packed != nil && packed.has("qweight"):
		d.autoGPTQ(m, packed, scale)
	case packed != nil && packed.has("_blocks"):
		d.Container, d.DType, d.Bits, d.Float, d.Strategy, d.Group = GPTOSS, packed.DType, 4, true, "group", 32
		d.need(m, Scale)
	case packed != nil && packed.DType == st.U8:
		d.Container, d.DType, d.Bits, d.Float = CompressedTensors, packed.DType, 4, true
		d.fp4(m, packed, scale)
	case packed != nil:
		d.Container, d.Format, d.DType = CompressedTensors, "pack-quantized", packed.DType
		d.packedInts(m, packed, scale)
	case weight != nil:
		d.DType = weight.DType
		d.plainName(m, weight, scale)
	}
	return d
}

// has reports whether the tensor's name ends so.
func (m *Member) has(suffix string) bool { return strings.HasSuffix(m.Tensor.Name, suffix) }

// need notes a part that is missing.
func (d *Detected) need(m *Module, part Part) {
	if m.Get(part) == nil && d.Missing == "" {
		d.Missing = part
	}
}

// fp4 tells NVFP4 from MXFP4 by the scale's dtype.
func (d *Detected) fp4(m *Module, packed, scale *Member) {
	switch {
	case scale != nil && scale.DType == st.F8E4M3, scale == nil && m.Get(GlobalScale) != nil:
		d.Format, d.Strategy, d.Group = "nvfp4-pack-quantized", "tensor_group", 16
		d.need(m, GlobalScale)
	default:
		d.Format, d.Strategy, d.Group = "mxfp4-pack-quantized", "group", 32
	}
	d.need(m, Scale)
	if scale != nil && last(scale.Shape) > 0 && last(packed.Shape)*2%last(scale.Shape) == 0 {
		d.Group = last(packed.Shape) * 2 / last(scale.Shape)
	}
}

// packedInts finds the width of pack-quantized codes from weight_shape, the only
// place where the logical number of columns stands.
func (d *Detected) packedInts(m *Module, packed, scale *Member) {
	d.need(m, Scale)
	d.need(m, Shape)
	if shape := m.Get(Shape); shape != nil && shape.DType == st.I64 && shape.Bytes == 16 {
		var b [16]byte
		if n, _ := shape.ReadAt(b[:], 0); n == len(b) {
			d.columns = binary.LittleEndian.Uint64(b[8:])
		}
	}
	words := last(packed.Shape)
	if d.columns == 0 || d.columns > words*32 {
		d.columns = 0
		return
	}
	d.Bits = packedBits(words, d.columns)
	if scale != nil && len(packed.Shape) == 2 {
		d.strategy(scale, packed.Shape[0], d.columns)
	}
}

// packedBits returns the width of codes that fill so many 32-bit words a row, or
// 0. Until 0.18.0 codes did not straddle words, which leaves room for doubt (7
// bits in that layout look like 8 in this one); the common width is taken.
func packedBits(words, columns uint64) int {
	for _, bits := range []uint64{4, 8, 2, 3, 5, 6, 7, 1} {
		if words == ceil(columns*bits, 32) {
			return int(bits)
		}
	}
	for _, bits := range []uint64{3, 5, 6, 7} {
		if words == ceil(columns, 32/bits) {
			return int(bits)
		}
	}
	return 0
}

// autoGPTQ tells GPTQ from AWQ, which share names: GPTQ packs along rows, AWQ
// along columns.
func (d *Detected) autoGPTQ(m *Module, packed, scale *Member) {
	d.Container, d.DType, d.Strategy = AWQ, packed.DType, "group"
	if scale == nil || len(packed.Shape) != 2 || len(scale.Shape) != 2 || scale.Shape[0] == 0 || scale.Shape[1] == 0 {
		d.need(m, Scale)
		return
	}
	rows, columns := packed.Shape[0], packed.Shape[1] // [in, out/pack] or [in/pack, out]
	if columns == scale.Shape[1] {
		d.Container = GPTQ
		if z := m.Get(ZeroPoint); z != nil && len(z.Shape) == 2 {
			d.Bits = int(min(z.Shape[1]*32/columns, 8))
			if d.Bits > 0 {
				d.Group = rows * 32 / uint64(d.Bits) / scale.Shape[0]
			}
		}
		return
	}
	d.Bits = int(min(columns*32/scale.Shape[1], 8))
	d.Group = rows / scale.Shape[0]
}

// plainName reads the schemes whose codes are called weight.
func (d *Detected) plainName(m *Module, weight, scale *Member) {
	inv, scale2 := m.Get(ScaleInv), m.Get(Scale2)
	rows, columns := uint64(1), last(weight.Shape)
	if n := len(weight.Shape); n >= 2 {
		rows = weight.Shape[n-2]
	}
	exponents := scale != nil && (scale.DType == st.U8 || scale.DType == st.F8E8M0)
	switch {
	case weight.DType == st.U8 && (scale2 != nil || scale != nil && scale.DType == st.F8E4M3):
		d.Container, d.Format, d.Bits, d.Float, d.Strategy, d.Group = ModelOpt, "NVFP4", 4, true, "tensor_group", 16
		d.need(m, Scale)
		d.need(m, Scale2)
	case weight.DType == st.F8E4M3 && inv != nil:
		d.Container, d.Bits, d.Float, d.Strategy = BlockFP8, 8, true, "block"
		d.strategy(inv, rows, columns)
	case weight.DType == st.F8E4M3 && exponents && last(scale.Shape)*32 == columns:
		d.Container, d.Format, d.Bits, d.Float, d.Strategy, d.Group = CompressedTensors, "mxfp8-quantized", 8, true, "group", 32
	case weight.DType == st.F8E4M3 && exponents: // DeepSeek-V4
		d.Container, d.Bits, d.Float, d.Strategy = BlockFP8, 8, true, "block"
		d.strategy(scale, rows, columns)
	case weight.DType == st.I8 && scale != nil && scale.DType == st.F8E8M0: // DeepSeek-V4's experts: two FP4 codes a byte
		d.Container, d.Bits, d.Float, d.Strategy, d.Group = BlockFP8, 4, true, "group", 32
	case weight.DType == st.F8E4M3 && scale != nil:
		d.Container, d.Format, d.Bits, d.Float = CompressedTensors, "float-quantized", 8, true
		d.strategy(scale, rows, columns)
		switch len(scale.Shape) {
		case 0:
			d.Container, d.Format = ModelOpt, "FP8"
		case 1:
			if scale.Shape[0] != 1 {
				d.Container, d.Format, d.Strategy = ModelOpt, "FP8_PER_CHANNEL_PER_TOKEN", "channel"
			}
		case 4:
			d.Container, d.Format = ModelOpt, "FP8_PB_WO"
		}
	case weight.DType == st.I8 && scale != nil:
		d.Container, d.Format, d.Bits = CompressedTensors, "int-quantized", 8
		d.strategy(scale, rows, columns)
	case weight.DType == st.F8E4M3, weight.DType == st.F8E5M2, weight.DType == st.I8:
		d.need(m, Scale) // plain casts exist (diffusion models), so this is no verdict
	}
}

// strategy reads how scales are shared from their shape. The reference stores
// [1], [rows,1], [rows,columns/group] and [ceil(rows/b),ceil(columns/b)].
func (d *Detected) strategy(scale *Member, rows, columns uint64) {
	shape := scale.Shape
	if len(shape) == 4 && shape[1] == 1 && shape[3] == 1 { // ModelOpt's FP8_PB_WO
		shape = []uint64{shape[0], shape[2]}
	}
	n, _ := scale.Elements()
	switch {
	case n == 1 && len(shape) < 2:
		d.Strategy = "tensor"
	case len(shape) < 2:
		d.Strategy = "channel"
	case shape[len(shape)-2] == rows && last(shape) == 1:
		d.Strategy = "channel"
	case shape[len(shape)-2] == rows && last(shape) > 0 && columns%last(shape) == 0 && (rows > 1 || !d.Float):
		d.Strategy, d.Group = "group", columns/last(shape)
	case shape[len(shape)-2] > 0 && last(shape) > 0:
		r, c := shape[len(shape)-2], last(shape)
		d.Strategy, d.Block = "block", [2]uint64{ceil(rows, r), ceil(columns, c)}
		// Ragged edges hide the block's size; 128 is what everybody writes.
		if ceil(rows, 128) == r && ceil(columns, 128) == c {
			d.Block = [2]uint64{128, 128}
		}
	}
}

func ceil(n, by uint64) uint64 { return (n + by - 1) / by }

func last(shape []uint64) uint64 {
	if len(shape) == 0 {
		return 1
	}
	return shape[len(shape)-1]
}
