// The walk over CPython's frames as plain C (bpf/python.h), on images of memory that are made here.
// Offsets are typed from CPython's headers (see python_abi.h for their names).

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/bpf/memory_image.h"

namespace profd::test {
namespace {

constexpr std::uint64_t kThread = 0x10000;
constexpr std::uint64_t kThreadId = 0x9000;  // the thread's base
constexpr std::uint64_t kObjects = 0x200000;
constexpr std::uint64_t kFrames = 0x7000000;  // 64 KiB of them
constexpr std::uint64_t kStack = 0x7ff00000;  // native
constexpr std::uint64_t kBias = 0x100000;
constexpr std::uint64_t kCodeType = 0x5000;
constexpr std::uint32_t kLoop = 0x3000;  // offset in the file

profd_python_layout objects_layout() {
  profd_python_layout layout{};
  layout.object_type = 8;
  layout.str_length = 16;
  layout.str_state = 32;
  layout.str_ascii = 48;
  layout.str_other = 72;
  layout.bytes_size = 16;
  layout.bytes_data = 32;
  return layout;
}

// 3.8 and 3.10.
profd_python_layout layout_of_objects_in_heap(unsigned minor) {
  profd_python_layout layout = objects_layout();
  layout.tstate_frame = 24;
  layout.tstate_cframe = minor == 10 ? 48 : 0;
  layout.tstate_thread_id = 176;
  layout.cframe_previous = 8;
  layout.frame_code = 32;
  layout.frame_previous = 24;
  layout.frame_position = minor == 10 ? 96 : 104;
  layout.frame_bytes = 112;
  layout.code_bytecode = 48;
  layout.code_parts = 56;
  layout.code_first_line = 40;
  layout.code_file = 104;
  layout.code_name = 112;
  layout.code_lines = 120;
  layout.position = minor == 10 ? PROFD_PYTHON_LASTI_UNITS : PROFD_PYTHON_LASTI_BYTES;
  layout.anchor = minor == 10 ? PROFD_PYTHON_EACH_CFRAME : PROFD_PYTHON_NO_ANCHOR;
  return layout;
}

profd_python_layout layout_of_311() {
  profd_python_layout layout = objects_layout();
  layout.tstate_cframe = 56;
  layout.tstate_thread_id = 152;
  layout.cframe_frame = 8;
  layout.cframe_previous = 16;
  layout.frame_code = 32;
  layout.frame_previous = 48;
  layout.frame_position = 56;
  layout.frame_boundary = 68;
  layout.boundary_value = 1;
  layout.frame_bytes = 69;
  layout.code_text = 184;
  layout.code_units = 16;
  layout.code_parts = 24;
  layout.code_first_line = 72;
  layout.code_file = 112;
  layout.code_name = 120;
  layout.code_qualname = 128;
  layout.code_lines = 136;
  layout.position = PROFD_PYTHON_POINTER;
  layout.anchor = PROFD_PYTHON_ENTRY_CFRAME;
  layout.frames_are_near = 1;
  layout.has_prologue = 1;
  return layout;
}

// 3.12, 3.14 and 3.15.
profd_python_layout layout_with_shims(unsigned minor) {
  profd_python_layout layout = layout_of_311();
  const bool is_312 = minor == 12;
  layout.tstate_frame = is_312 ? 0 : 72;
  layout.tstate_cframe = is_312 ? 56 : 0;
  layout.tstate_thread_id = is_312 ? 136 : minor == 14 ? 152 : 176;
  layout.cframe_frame = 0;
  layout.cframe_previous = is_312 ? 8 : 0;
  layout.frame_code = 0;
  layout.frame_previous = 8;
  layout.frame_boundary = is_312 ? 70 : 74;
  layout.boundary_value = 3;
  layout.boundary_or_more = minor >= 14;
  layout.frame_bytes = is_312 ? 71 : 75;
  layout.pointer_tag_mask = is_312 ? 0 : 3;
  layout.code_text = is_312 ? 192 : 208;
  layout.code_first_line = 68;
  layout.code_version = 92;
  layout.code_parts = 0;
  layout.str_ascii = 40;
  layout.str_other = 56;
  layout.anchor = PROFD_PYTHON_SHIM;
  layout.has_prologue = is_312;
  return layout;
}

profd_python_layout layout_of(unsigned minor) {
  if (minor <= 10) return layout_of_objects_in_heap(minor);
  return minor == 11 ? layout_of_311() : layout_with_shims(minor);
}

// A process with one thread. Objects and frames are made from their callers on.
class Python {
 public:
  explicit Python(unsigned minor) : minor_(minor), layout_(layout_of(minor)) {
    image_now = &image_;
    announced_now.clear();
    clock_now = 0;
    at_->left_ns = PROFD_MAX_CHAIN_NS;
    at_->clock_ns = 0;
    std::memcpy(at_->layout.words, &layout_, sizeof(layout_));
    at_->runtime.kind = PROFD_RUNTIME_PYTHON;
    at_->runtime.code_type = kCodeType;
    at_->runtime.loop[0] = {.start = kLoop, .bytes = 0x8000};
    at_->bias = kBias;
    at_->fsbase = kThreadId;
    at_->thread = kThread;
    at_->process_hash = 77;
    at_->end = PROFD_CHAIN_FRAME_LIMIT;
    at_->window_low = ~0ULL;
    for (std::uint64_t offset = 0; offset < 0x10000; offset += MemoryImage::kPage) {
      image_.put<char>(kFrames + offset, 0);
    }
    image_.put(kThread + layout_.tstate_thread_id, kThreadId);
    set_leaf(0);
    set_cframe(0);
  }

  MemoryImage& image() { return image_; }
  profd_interpreter& at() { return *at_; }
  [[nodiscard]] const profd_python_layout& layout() const { return layout_; }

  std::uint64_t allocate(std::uint64_t bytes) {
    const std::uint64_t address = next_object_;
    next_object_ += (bytes + 15) / 16 * 16;
    image_.put_bytes(address, std::string(bytes, '\0'));
    return address;
  }

  // `kind` is 1, 2 or 4 bytes a code point. The bits above the state's are garbage in real ones.
  std::uint64_t make_str(const std::string& bytes, std::uint32_t kind = 1, bool is_ascii = true) {
    const std::uint64_t text = is_ascii ? layout_.str_ascii : layout_.str_other;
    const std::uint64_t object = allocate(text + bytes.size() + kind);
    image_.put<std::uint64_t>(object + 16, bytes.size() / kind);
    image_.put<std::uint32_t>(object + 32,
                              0xabcd0000U | kind << 2 | 1U << 5 | std::uint32_t{is_ascii} << 6);
    image_.put_bytes(object + text, bytes);
    return object;
  }

  std::uint64_t make_bytes(const std::string& bytes) {
    const std::uint64_t object = allocate(33 + bytes.size());
    image_.put<std::uint64_t>(object + 16, bytes.size());
    image_.put_bytes(object + 32, bytes);
    return object;
  }

  std::uint64_t make_code(const std::string& name, std::uint32_t line = 7, unsigned units = 100) {
    const std::uint64_t code = allocate(208 + 2 * std::uint64_t{units});
    image_.put<std::uint64_t>(code + 8, kBias + kCodeType);
    image_.put(code + layout_.code_name, make_str(name));
    image_.put(code + layout_.code_file, make_str(name + ".py"));
    image_.put(code + layout_.code_lines, make_bytes("lines of " + name));
    image_.put(code + layout_.code_first_line, line);
    if (layout_.code_qualname != 0) {
      image_.put(code + layout_.code_qualname, make_str("Q." + name));
    }
    if (layout_.code_units != 0) {
      image_.put<std::uint64_t>(code + layout_.code_units, units);
    } else {
      image_.put(code + layout_.code_bytecode, make_bytes(std::string(2 * units, 'x')));
    }
    names_[code] = name;
    return code;
  }

  // What a specialised call of a class has between __init__ and the caller.
  std::uint64_t make_init_cleanup() {
    const std::uint64_t code = make_code("__init__", 0, 3);
    const std::uint64_t name = make_str("__init__");
    image_.put(code + layout_.code_name, name);
    image_.put(code + layout_.code_qualname, name);
    image_.put(code + layout_.code_file, name);
    return code;
  }

  // A frame for a call from `caller`, at the unit with this index. Frames that are near lie one
  // behind the other.
  std::uint64_t make_frame(std::uint64_t code, std::int64_t unit, std::uint64_t caller,
                           bool is_entry = false) {
    const std::uint64_t frame = layout_.frames_are_near != 0 ? next_frame_ : allocate(128);
    if (layout_.frames_are_near != 0) next_frame_ += 96;
    put_frame(frame, code, unit, caller);
    if (layout_.anchor == PROFD_PYTHON_ENTRY_CFRAME) {
      image_.put<std::uint8_t>(frame + layout_.frame_boundary, is_entry ? 1 : 0);
    }
    return frame;
  }

  void put_frame(std::uint64_t frame, std::uint64_t code, std::int64_t unit, std::uint64_t caller) {
    image_.put(frame + layout_.frame_code, code | (layout_.pointer_tag_mask & 1U));
    image_.put(frame + layout_.frame_previous, caller);
    if (layout_.position == PROFD_PYTHON_POINTER) {
      image_.put(frame + layout_.frame_position,
                 code + layout_.code_text + static_cast<std::uint64_t>(2 * unit));
    } else {
      const bool is_bytes = layout_.position == PROFD_PYTHON_LASTI_BYTES;
      image_.put(frame + layout_.frame_position,
                 static_cast<std::int32_t>(is_bytes ? 2 * unit : unit));
    }
  }

  // At an offset of the native stack, or elsewhere.
  std::uint64_t make_shim(std::uint64_t address, std::uint64_t caller) {
    image_.put_bytes(address, std::string(128, '\0'));
    image_.put(address + layout_.frame_previous, caller);
    image_.put(address + layout_.frame_boundary, layout_.boundary_value);
    return address;
  }
  std::uint64_t make_cframe(std::uint64_t address, std::uint64_t frame, std::uint64_t previous) {
    image_.put_bytes(address, std::string(64, '\0'));
    if (minor_ != 10) image_.put(address + layout_.cframe_frame, frame);
    image_.put(address + layout_.cframe_previous, previous);
    return address;
  }

  void set_leaf(std::uint64_t frame) {
    if (layout_.tstate_frame != 0) image_.put(kThread + layout_.tstate_frame, frame);
  }
  void set_cframe(std::uint64_t cframe) {
    if (layout_.tstate_cframe != 0) image_.put(kThread + layout_.tstate_cframe, cframe);
  }

  profd_begin begin() { return static_cast<profd_begin>(profd_python_begin(at_.get())); }

  // "f+3 g+5 |100 h+1 |200": names and units, leaf first, and anchors as offsets from kStack.
  std::string walk() {
    const profd_begin verdict = begin();
    if (verdict != PROFD_BEGIN_DONE) return "begin " + std::to_string(verdict);
    for (std::size_t i = 0; i <= PROFD_MAX_INTERPRETED_ENTRIES; ++i) {
      if (profd_python_step(at_.get()) != 0) break;
    }
    return text();
  }

  // "?" stands for code that is not among the new one of this walk.
  std::string text() const {
    std::map<std::uint64_t, std::string> names;
    for (std::uint32_t i = 0; i < std::min<std::uint32_t>(at_->unannounced, PROFD_MAX_NEW_CODES);
         ++i) {
      names[at_->new_codes[i].id] = names_.at(at_->new_codes[i].code);
    }
    std::ostringstream out;
    for (std::uint32_t i = 0; i < at_->entry_count; ++i) {
      const profd_interpreted_entry& entry = at_->entries[i];
      if (i != 0) out << ' ';
      if (entry.kind == PROFD_ENTRY_BOUNDARY) {
        out << '|';
        if (entry.value != 0) out << std::hex << entry.value - kStack << std::dec;
        continue;
      }
      const auto name = names.find(entry.value);
      out << (name == names.end() ? "?" : name->second);
      if (entry.position != PROFD_NO_POSITION) out << '+' << entry.position;
    }
    return out.str();
  }

 private:
  unsigned minor_;
  profd_python_layout layout_;
  MemoryImage image_;
  std::unique_ptr<profd_interpreter> at_ = std::make_unique<profd_interpreter>();
  std::map<std::uint64_t, std::string> names_;
  std::uint64_t next_object_ = kObjects;
  std::uint64_t next_frame_ = kFrames + 0x8000;
};

// h runs in a loop of its own, and calls g in another one, which calls f; with cframes and shims at
// 0x100 and 0x200, or three of 3.10.
void make_two_loops(Python& python) {
  const unsigned anchor = python.layout().anchor;
  const std::uint64_t f = python.make_code("f");
  const std::uint64_t g = python.make_code("g");
  const std::uint64_t h = python.make_code("h");
  std::uint64_t outer = 0;
  if (anchor == PROFD_PYTHON_SHIM) outer = python.make_shim(kStack + 0x200, 0);
  const std::uint64_t h_frame = python.make_frame(h, 1, outer, true);
  std::uint64_t inner = h_frame;
  if (anchor == PROFD_PYTHON_SHIM) inner = python.make_shim(kStack + 0x100, h_frame);
  const std::uint64_t g_frame = python.make_frame(g, 5, inner, true);
  const std::uint64_t f_frame = python.make_frame(f, 3, g_frame);
  // Those of 3.12 are no anchors.
  const std::uint64_t cframes = anchor == PROFD_PYTHON_SHIM ? kStack + 0x1000 : kStack;
  std::uint64_t cframe = 0;
  if (anchor == PROFD_PYTHON_EACH_CFRAME) cframe = python.make_cframe(cframes + 0x300, 0, 0);
  cframe = python.make_cframe(cframes + 0x200, h_frame, cframe);
  python.set_cframe(python.make_cframe(cframes + 0x100, f_frame, cframe));
  python.set_leaf(f_frame);
}

class InterpreterWalkTest : public testing::TestWithParam<unsigned> {};

// Finds: a wrong field of any layout, a segment that ends one frame too early or too late, the next
// cframe taken from the wrong one.
TEST_P(InterpreterWalkTest, HasTheFramesAndTheSegments) {
  Python python(GetParam());
  make_two_loops(python);
  std::string expected = "f+3 g+5 |100 h+1 |200";
  if (GetParam() == 8) expected = "f+3 | g+5 | h+1 |";
  if (GetParam() == 10) expected = "f+3 |100 g+5 |200 h+1 |300";
  EXPECT_EQ(python.walk(), expected);
  EXPECT_EQ(python.at().end, PROFD_CHAIN_COMPLETE);
  EXPECT_EQ(python.at().unannounced, 3U);
}

TEST_P(InterpreterWalkTest, AnotherThreadsStateIsRefused) {
  Python python(GetParam());
  make_two_loops(python);
  python.at().fsbase = kThreadId + 8;
  EXPECT_EQ(python.begin(), PROFD_BEGIN_MISMATCH);
  python.image().forget(kThread);
  EXPECT_EQ(python.begin(), PROFD_BEGIN_UNREADABLE);
}

TEST_P(InterpreterWalkTest, AThreadWithoutFramesIsComplete) {
  Python python(GetParam());
  EXPECT_EQ(python.walk(), "");
  EXPECT_EQ(python.at().end, PROFD_CHAIN_COMPLETE);
}

// Finds: the type is not compared, or compared with the address in the file.
TEST_P(InterpreterWalkTest, AnObjectThatIsNoCodeEndsTheChain) {
  Python python(GetParam());
  const std::uint64_t g = python.make_code("g");
  const std::uint64_t f = python.make_code("f");
  python.image().put<std::uint64_t>(g + 8, kCodeType);
  const std::uint64_t leaf = python.make_frame(f, 3, python.make_frame(g, 1, 0));
  python.set_leaf(leaf);
  python.set_cframe(python.make_cframe(kStack + 0x100, leaf, 0));
  EXPECT_TRUE(python.walk().starts_with("f+3"));
  EXPECT_EQ(python.at().end, PROFD_CHAIN_NOT_CODE);
  EXPECT_EQ(python.at().frame_count, 1U);
}

TEST_P(InterpreterWalkTest, AWildPointerEndsTheChainBehindWhatWasRead) {
  for (const std::uint64_t wild : {std::uint64_t{0xdead0000}, std::uint64_t{8}, ~std::uint64_t{7},
                                   std::uint64_t{0xffffffff81000000}}) {
    Python python(GetParam());
    const std::uint64_t leaf = python.make_frame(python.make_code("f"), 3, wild);
    python.set_leaf(leaf);
    python.set_cframe(python.make_cframe(kStack + 0x100, leaf, 0));
    EXPECT_TRUE(python.walk().starts_with("f+3")) << std::hex << wild;
    EXPECT_EQ(python.at().end, PROFD_CHAIN_UNREADABLE) << std::hex << wild;
    EXPECT_EQ(python.at().frame_count, 1U);
  }
}

TEST_P(InterpreterWalkTest, AFrameAtAnOddAddressEndsTheChain) {
  Python python(GetParam());
  const std::uint64_t code = python.make_code("f");
  const std::uint64_t leaf = python.make_frame(code, 3, python.make_frame(code, 1, 0) + 4);
  python.set_leaf(leaf);
  python.set_cframe(python.make_cframe(kStack + 0x100, leaf, 0));
  EXPECT_TRUE(python.walk().starts_with("f+3"));
  EXPECT_EQ(python.at().end, PROFD_CHAIN_NOT_CODE);
}

// Finds: no limit of frames, of segments or of reads.
TEST_P(InterpreterWalkTest, ACycleEndsAtALimit) {
  Python python(GetParam());
  const std::uint64_t code = python.make_code("f");
  const std::uint64_t leaf = python.make_frame(code, 3, 0);
  python.put_frame(leaf, code, 3, leaf);
  python.set_leaf(leaf);
  python.set_cframe(0);
  if (python.layout().tstate_frame == 0) {
    python.set_cframe(python.make_cframe(kStack + 0x100, leaf, 0));
  }
  (void)python.walk();
  EXPECT_EQ(python.at().end, PROFD_CHAIN_FRAME_LIMIT);
  EXPECT_LE(python.at().frame_count, unsigned{PROFD_MAX_INTERPRETED_FRAMES});
  EXPECT_LE(python.at().segment_count, unsigned{PROFD_MAX_SEGMENTS});
  EXPECT_LE(python.at().reads, unsigned{PROFD_MAX_CHAIN_READS});
  EXPECT_GT(python.at().frame_count, 100U);
}

TEST_P(InterpreterWalkTest, APositionBehindTheCodeEndsTheChain) {
  // Before 3.11 a code object does not say how long it is.
  const bool is_known = GetParam() >= 11;
  for (const auto& [unit, is_good] : std::map<std::int64_t, bool>{
           {-2, false}, {-1, true}, {0, true}, {10, true}, {11, !is_known}, {1 << 25, false}}) {
    Python python(GetParam());
    const std::uint64_t leaf = python.make_frame(python.make_code("f", 7, 10), unit, 0);
    python.set_leaf(leaf);
    python.set_cframe(python.make_cframe(kStack + 0x100, leaf, 0));
    const std::string walked = python.walk();
    EXPECT_EQ(python.at().frame_count, is_good ? 1U : 0U) << unit;
    if (!is_good) {
      EXPECT_EQ(python.at().end, PROFD_CHAIN_NOT_CODE) << unit;
    }
    if (unit == -1) {
      EXPECT_TRUE(walked == "f" || walked.starts_with("f |")) << walked;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, InterpreterWalkTest,
                         testing::Values(8U, 10U, 11U, 12U, 14U, 15U),
                         [](const auto& minor) { return "Python3" + std::to_string(minor.param); });

class InterpreterIdTest : public testing::TestWithParam<unsigned> {};

// Finds: a field that is not hashed.
TEST_P(InterpreterIdTest, ChangesWithAllThatALaterObjectHasOtherwise) {
  Python python(GetParam());
  const std::uint64_t code = python.make_code("f");
  const std::uint64_t leaf = python.make_frame(code, 3, 0);
  python.set_leaf(leaf);
  python.set_cframe(python.make_cframe(kStack + 0x100, leaf, 0));
  const profd_interpreter fresh = python.at();
  std::set<std::uint64_t> ids;
  const auto walk = [&] {
    const std::uint64_t process_hash = python.at().process_hash;
    python.at() = fresh;
    python.at().process_hash = process_hash;
    (void)python.walk();
    ids.insert(python.at().entries[0].value);
  };
  walk();
  walk();
  ASSERT_EQ(ids.size(), 1U);
  const profd_python_layout& layout = python.layout();
  const unsigned bytecode = layout.code_units != 0 ? layout.code_units : layout.code_bytecode;
  const unsigned parts = layout.code_parts;
  std::size_t expected = 1;
  for (const unsigned field :
       {unsigned{layout.code_first_line}, unsigned{layout.code_name}, unsigned{layout.code_file},
        unsigned{layout.code_lines}, bytecode, unsigned{layout.code_version}, parts,
        parts == 0 ? 0 : parts + 8, parts == 0 ? 0 : parts + 16}) {
    if (field == 0) continue;
    std::uint32_t value = 0;
    ASSERT_TRUE(python.image().read(&value, sizeof(value), code + field));
    python.image().put(code + field, value + 16);
    walk();
    EXPECT_EQ(ids.size(), ++expected) << field;
  }
  python.at().process_hash += 1;
  walk();
  EXPECT_EQ(ids.size(), ++expected);
}

INSTANTIATE_TEST_SUITE_P(Versions, InterpreterIdTest, testing::Values(8U, 10U, 11U, 12U, 14U, 15U),
                         [](const auto& minor) { return "Python3" + std::to_string(minor.param); });

// Finds: the prologue is not recognised, is recognised outside of it, or its loop has no segment.
TEST(InterpreterPrologueTest, TheCframeBeforeCountsWhileTheLoopBegins) {
  for (const unsigned minor : {11U, 12U}) {
    Python python(minor);
    make_two_loops(python);
    std::uint64_t caller = 0;
    ASSERT_TRUE(python.image().read(&caller, 8, kThread + python.layout().tstate_cframe));
    // Its frame is not set yet.
    python.set_cframe(python.make_cframe(kStack + 0x80, 0x1234568, caller));
    python.at().is_leaf = 1;
    python.at().leaf_ip = kLoop + 0x40;
    python.at().leaf_sp = kStack + 0x40;
    python.at().leaf_cfa = kStack + 0xc0;
    EXPECT_EQ(python.walk(), "|80 f+3 g+5 |100 h+1 |200") << minor;
    EXPECT_EQ(python.at().end, PROFD_CHAIN_COMPLETE);
    EXPECT_EQ(python.at().doubtful, caller);
  }
}

// The pointer to the cframe before is what an earlier call left, until the frame is set. Finds:
// frames that are shown though the loop's frame has another cframe, or whatever frame has it.
TEST(InterpreterPrologueTest, FramesAreDroppedUnlessTheNextLoopHasTheirCframe) {
  for (const int mutation : {0, 1, 2}) {
    Python python(11);
    make_two_loops(python);
    std::uint64_t caller = 0;
    ASSERT_TRUE(python.image().read(&caller, 8, kThread + python.layout().tstate_cframe));
    python.set_cframe(python.make_cframe(kStack + 0x80, 0x1234568, caller));
    python.at().is_leaf = 1;
    python.at().leaf_ip = kLoop + 0x40;
    python.at().leaf_sp = kStack + 0x40;
    python.at().leaf_cfa = kStack + 0xc0;
    (void)python.walk();
    python.at().met = mutation == 1 ? 2 : 1;
    const std::uint64_t sp = mutation == 2 ? caller + 8 : kStack + 0xc0;
    profd_resolve_doubt(&python.at(), sp, sp + 0x80);
    profd_drop_doubtful(&python.at());
    EXPECT_EQ(python.text(), mutation == 0 ? "|80 f+3 g+5 |100 h+1 |200" : "|80") << mutation;
    EXPECT_EQ(python.at().end, mutation == 0 ? PROFD_CHAIN_COMPLETE : PROFD_CHAIN_NOT_CODE)
        << mutation;
    EXPECT_EQ(python.at().unannounced, mutation == 0 ? 3U : 0U);
  }
}

TEST(InterpreterPrologueTest, OutsideOfItTheCurrentCframeCounts) {
  for (const int mutation : {0, 1, 2, 3}) {
    Python python(11);
    make_two_loops(python);
    python.at().is_leaf = mutation == 0 ? 0 : 1;
    python.at().leaf_ip = mutation == 1 ? kLoop + 0x100 : kLoop + 0x40;
    if (mutation == 3) python.at().runtime.prologue = 0x40;
    python.at().leaf_sp = kStack + 0x40;
    python.at().leaf_cfa = mutation == 2 ? kStack + 0x100 : kStack + 0x140;
    EXPECT_EQ(python.walk(), "f+3 g+5 |100 h+1 |200") << mutation;
  }
}

TEST(InterpreterShimTest, AShimAloneIsASegmentWithoutFrames) {
  Python python(12);
  make_two_loops(python);
  std::uint64_t cframe = 0;
  std::uint64_t leaf = 0;
  ASSERT_TRUE(python.image().read(&cframe, 8, kThread + 56));
  ASSERT_TRUE(python.image().read(&leaf, 8, cframe));
  python.image().put(cframe, python.make_shim(kStack + 0x80, leaf));
  EXPECT_EQ(python.walk(), "|80 f+3 g+5 |100 h+1 |200");
}

// Owner 4 is one too in 3.14 and 3.15, and in no earlier version.
TEST(InterpreterShimTest, TheOwnersThatAreShimsDependOnTheVersion) {
  for (const unsigned minor : {12U, 14U, 15U}) {
    Python python(minor);
    make_two_loops(python);
    python.image().put<std::uint8_t>(kStack + 0x100 + python.layout().frame_boundary, 4);
    EXPECT_EQ(python.walk(), minor >= 14 ? "f+3 g+5 |100 h+1 |200" : "f+3 g+5") << minor;
  }
}

// Finds: the frame is shown, ends the chain or its segment, or is known by less than all its signs.
TEST(InterpreterHiddenTest, TheFrameOfASpecialisedCallOfAClassIsNotShown) {
  for (const unsigned minor : {14U, 15U}) {
    for (const unsigned mutation : {0U, 1U, 2U, 3U}) {
      Python python(minor);
      const profd_python_layout& layout = python.layout();
      const std::uint64_t cleanup = python.make_init_cleanup();
      if (mutation == 1) python.image().put<std::uint32_t>(cleanup + layout.code_first_line, 1);
      if (mutation == 2) python.image().put(cleanup + layout.code_file, python.make_str("a.py"));
      if (mutation == 3) python.image().put(cleanup + layout.code_qualname, python.make_str("C"));
      const std::uint64_t f = python.make_code("f");
      std::uint64_t frame = python.make_frame(f, 1, python.make_shim(kStack + 0x100, 0));
      frame = python.make_frame(cleanup, 1, frame);
      frame = python.make_frame(python.make_code("init"), 5, frame);
      frame = python.make_frame(cleanup, 0, frame);
      python.set_leaf(frame);
      EXPECT_EQ(python.walk(),
                mutation == 0 ? "init+5 f+1 |100" : "__init__+0 init+5 __init__+1 f+1 |100")
          << minor << ' ' << mutation;
      EXPECT_EQ(python.at().end, PROFD_CHAIN_COMPLETE);
      EXPECT_EQ(python.at().unannounced, mutation == 0 ? 2U : 3U);
    }
  }
}

TEST(InterpreterHiddenTest, ACycleOfFramesThatAreNotShownEnds) {
  Python python(14);
  const std::uint64_t cleanup = python.make_init_cleanup();
  const std::uint64_t frame = python.make_frame(cleanup, 1, 0);
  python.put_frame(frame, cleanup, 1, frame);
  python.set_leaf(frame);
  EXPECT_EQ(python.walk(), "");
  EXPECT_EQ(python.at().end, PROFD_CHAIN_FRAME_LIMIT);
}

// The last frame of 3.15 lies in the thread state, far below the native stack. Its owner is that of
// a shim, or FRAME_OWNED_BY_THREAD_STATE.
TEST(InterpreterShimTest, TheBaseFrameEndsTheChain) {
  for (const std::uint8_t owner : {std::uint8_t{3}, std::uint8_t{4}}) {
    Python python(15);
    const std::uint64_t base = python.make_shim(kThread + 0x400, 0);
    python.image().put(base + python.layout().frame_boundary, owner);
    python.set_leaf(base);
    EXPECT_EQ(python.walk(), "");
    EXPECT_EQ(python.at().end, PROFD_CHAIN_COMPLETE);

    Python with_frames(15);
    const std::uint64_t last = with_frames.make_shim(kThread + 0x400, 0);
    with_frames.image().put(last + with_frames.layout().frame_boundary, owner);
    const std::uint64_t shim = with_frames.make_shim(kStack + 0x100, last);
    with_frames.set_leaf(with_frames.make_frame(with_frames.make_code("f"), 3, shim));
    EXPECT_EQ(with_frames.walk(), "f+3 |100");
    EXPECT_EQ(with_frames.at().end, PROFD_CHAIN_COMPLETE);
  }
}

TEST(InterpreterShimTest, AnAnchorThatIsNotAboveTheOneBeforeEndsTheChain) {
  for (const std::uint64_t outer : {0x100, 0x80}) {
    Python python(14);
    const std::uint64_t code = python.make_code("f");
    std::uint64_t frame = python.make_frame(code, 1, 0);
    if (outer != 0x100) frame = python.make_shim(kStack + outer, frame);
    frame = python.make_frame(code, 2, python.make_shim(kStack + 0x100, frame));
    if (outer == 0x100) {
      // The shim is its own caller.
      python.image().put(kStack + 0x100 + python.layout().frame_previous, kStack + 0x100);
    }
    python.set_leaf(frame);
    EXPECT_EQ(python.walk(), "f+2 |100");
    EXPECT_EQ(python.at().end, PROFD_CHAIN_DISORDERED);
  }
}

// Finds: a window that is not used, or a read beyond the page of a frame.
TEST(InterpreterWindowTest, FramesThatLieCloseTogetherShareReads) {
  Python python(12);
  const std::uint64_t code = python.make_code("f");
  std::uint64_t frame = python.make_shim(kStack + 0x200, 0);
  for (int i = 0; i < 46; ++i) frame = python.make_frame(code, i, frame);
  python.set_cframe(python.make_cframe(kStack + 0x180, frame, 0));
  python.image().forget(kFrames + 0x7000);  // in front of the first frame
  std::string expected;
  for (int i = 45; i >= 0; --i) expected += "f+" + std::to_string(i) + " ";
  EXPECT_EQ(python.walk(), expected + "|200");
  EXPECT_EQ(python.at().failed_reads, 0U);
  // The state, its cframe, the frame there, the code, the shim, and six windows for 4,416 bytes.
  EXPECT_LE(python.at().reads, 12U);
}

// A generator's frame lies in its object.
TEST(InterpreterWindowTest, AFrameElsewhereIsReadApart) {
  Python python(12);
  const std::uint64_t code = python.make_code("f");
  const std::uint64_t generator = python.allocate(128);
  std::uint64_t frame = python.make_frame(code, 1, python.make_shim(kStack + 0x200, 0));
  frame = python.make_frame(code, 2, frame);
  python.put_frame(generator, code, 3, frame);
  frame = python.make_frame(code, 4, generator);
  python.set_cframe(python.make_cframe(kStack + 0x180, frame, 0));
  EXPECT_EQ(python.walk(), "f+4 f+3 f+2 f+1 |200");
}

TEST(InterpreterWindowTest, ReadsOfFarFramesAreBounded) {
  Python python(12);
  std::uint64_t frame = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::uint64_t place = 0x60000000 + (i % 2 == 0 ? i : 1000 - i) * 0x10000;
    python.image().put_bytes(place, std::string(128, '\0'));
    python.put_frame(place, python.make_code("f"), 1, frame);
    frame = place;
  }
  python.set_cframe(python.make_cframe(kStack + 0x180, frame, 0));
  (void)python.walk();
  EXPECT_EQ(python.at().end, PROFD_CHAIN_FRAME_LIMIT);
  EXPECT_EQ(python.at().reads, unsigned{PROFD_MAX_CHAIN_READS});
  EXPECT_LE(clock_now, PROFD_MAX_CHAIN_NS + PROFD_READS_OF_CLOCK * 200ULL);
  EXPECT_GT(python.at().frame_count, 150U);
  EXPECT_LT(python.at().frame_count, 300U);
}

// Finds: no window where frames are objects, or none of the native stack.
TEST(InterpreterDepthTest, RecursionIsWalkedToTheLimitOfFramesBefore311) {
  constexpr std::uint64_t kHeap = 0x30000000;
  constexpr std::uint64_t kDepth = 900;
  for (const unsigned minor : {8U, 10U}) {
    Python python(minor);
    const std::uint64_t code = python.make_code("f");
    for (std::uint64_t page = 0; page < 200; ++page) {
      python.image().put<char>(kHeap + page * MemoryImage::kPage, 0);
      python.image().put<char>(kStack + page * MemoryImage::kPage, 0);
    }
    std::uint64_t frame = 0;
    std::uint64_t cframe = 0;
    for (std::uint64_t i = 0; i < kDepth; ++i) {
      // As pymalloc has objects of 416 bytes: nine in a page, behind its header.
      const std::uint64_t place = kHeap + i / 9 * MemoryImage::kPage + 48 + i % 9 * 416;
      python.put_frame(place, code, static_cast<std::int64_t>(i % 90), frame);
      frame = place;
      cframe = python.make_cframe(kStack + (kDepth - i) * 560, 0, cframe);
    }
    python.set_leaf(frame);
    python.set_cframe(cframe);
    (void)python.walk();
    EXPECT_EQ(python.at().end, PROFD_CHAIN_FRAME_LIMIT);
    EXPECT_EQ(python.at().frame_count, unsigned{PROFD_MAX_INTERPRETED_FRAMES}) << minor;
    EXPECT_EQ(python.at().segment_count, unsigned{PROFD_MAX_SEGMENTS}) << minor;
    // One for each page of frames and, of 3.10, of the native stack.
    EXPECT_LT(python.at().reads, minor == 10 ? 150U : 70U);
    EXPECT_EQ(python.at().entries[1022].position, (kDepth - 512) % 90);
    if (minor == 10) {
      EXPECT_EQ(python.at().entries[1023].value, kStack + 512 * 560);
    }
  }
}

// A hypervisor may take the CPU away between two reads.
TEST(InterpreterDepthTest, AClockThatJumpsOnceEndsNoChain) {
  Python python(10);
  make_two_loops(python);
  python.at().reads = PROFD_READS_OF_CLOCK - 1;
  clock_now = 1'000'000'000;
  EXPECT_EQ(python.walk(), "f+3 |100 g+5 |200 h+1 |300");
  EXPECT_LE(python.at().left_ns, PROFD_MAX_CHAIN_NS - PROFD_MAX_CHARGE_NS);
}

TEST(InterpreterDepthTest, AClockThatRunsFastEndsTheChain) {
  Python python(10);
  make_two_loops(python);
  python.at().reads = 2 * PROFD_READS_OF_CLOCK - 4;  // to the leaf frame it takes three
  python.at().left_ns = 0;
  EXPECT_EQ(python.walk(), "");
  EXPECT_EQ(python.at().end, PROFD_CHAIN_FRAME_LIMIT);
  EXPECT_EQ(python.at().failed_reads, 0U);
}

// Finds: a window of the stack that is used beyond its end, or for another address.
TEST(InterpreterDepthTest, CframesOfOtherPagesAreReadThere) {
  Python python(10);
  const std::uint64_t code = python.make_code("f");
  std::uint64_t frame = 0;
  for (int i = 1; i <= 4; ++i) frame = python.make_frame(code, i, frame);
  python.set_leaf(frame);
  // Their words `previous` are one in the middle of a page, its last one, and the first one of
  // another page.
  std::uint64_t cframe = python.make_cframe(kStack + 0x20100, 0, 0);
  cframe = python.make_cframe(kStack + 0x1fff8, 0, cframe);
  cframe = python.make_cframe(kStack + 0xff0, 0, cframe);
  python.set_cframe(python.make_cframe(kStack + 0x100, 0, cframe));
  EXPECT_EQ(python.walk(), "f+4 |100 f+3 |ff0 f+2 |1fff8 f+1 |20100");
  EXPECT_EQ(python.at().end, PROFD_CHAIN_COMPLETE);
}

struct Described {
  bool is_described;
  std::array<std::string, PROFD_CODE_TEXTS> texts;
};

Described describe_code(Python& python, std::uint64_t code) {
  profd_interpreter& at = python.at();
  at.text_used = 0;
  at.reads = 0;
  at.failed_reads = 0;
  at.left_ns = ~0ULL;
  at.announced = {};
  Described described{.is_described = profd_python_describe(&at, code), .texts = {}};
  std::size_t used = 0;
  for (std::size_t i = 0; i < PROFD_CODE_TEXTS; ++i) {
    described.texts.at(i).assign(at.texts + used, at.announced.text_bytes[i]);
    used += at.announced.text_bytes[i];
  }
  EXPECT_EQ(used, at.text_used);
  return described;
}

class InterpreterDescribeTest : public testing::TestWithParam<unsigned> {};

TEST_P(InterpreterDescribeTest, HasTheTextsInTheirOrder) {
  Python python(GetParam());
  const std::uint64_t code = python.make_code("f", 42, 10);
  const Described described = describe_code(python, code);
  EXPECT_TRUE(described.is_described);
  EXPECT_EQ(described.texts, (std::array<std::string, PROFD_CODE_TEXTS>{
                                 "f", GetParam() >= 11 ? "Q.f" : "", "f.py", "lines of f"}));
  const profd_interpreted_code& announced = python.at().announced;
  EXPECT_EQ(announced.address, code);
  EXPECT_EQ(announced.first_line, 42U);
  EXPECT_EQ(announced.units, 10U);
  EXPECT_EQ(announced.cut, 0);
  EXPECT_EQ(announced.text_kind[PROFD_CODE_NAME], PROFD_TEXT_LATIN_1);
  EXPECT_EQ(announced.text_kind[PROFD_CODE_LINES], PROFD_TEXT_BYTES);
}

TEST_P(InterpreterDescribeTest, TextsOfAllWidthsAreRaw) {
  Python python(GetParam());
  const std::uint64_t code = python.make_code("f");
  for (const std::uint32_t kind : {1U, 2U, 4U}) {
    const std::string text("abcdefgh");
    python.image().put(code + python.layout().code_name, python.make_str(text, kind, false));
    EXPECT_EQ(describe_code(python, code).texts.front(), text) << kind;
    EXPECT_EQ(python.at().announced.text_kind[PROFD_CODE_NAME], kind);
  }
}

// Finds: a limit that counts code points, or a size that the process chooses.
TEST_P(InterpreterDescribeTest, LongTextsAreCutAtTheirLimits) {
  Python python(GetParam());
  const std::uint64_t code = python.make_code("f");
  const profd_python_layout& layout = python.layout();
  python.image().put(code + layout.code_name, python.make_str(std::string(600, 'n'), 2, false));
  python.image().put(code + layout.code_file, python.make_str(std::string(512, 'f')));
  const std::uint64_t lines = python.make_bytes(std::string(9000, 'l'));
  python.image().put(lines + 16, std::uint64_t{1} << 40);
  python.image().put(code + layout.code_lines, lines);
  const Described described = describe_code(python, code);
  EXPECT_TRUE(described.is_described);
  EXPECT_EQ(described.texts.front().size(), std::size_t{PROFD_MAX_CODE_NAME_BYTES});
  EXPECT_EQ(described.texts[PROFD_CODE_FILE].size(), 512U);
  EXPECT_EQ(described.texts[PROFD_CODE_LINES].size(), std::size_t{PROFD_MAX_CODE_LINES_BYTES});
  EXPECT_EQ(python.at().announced.cut, 1 << PROFD_CODE_NAME | 1 << PROFD_CODE_LINES);
}

TEST_P(InterpreterDescribeTest, CodeWithoutANameOrAFileIsNotDescribed) {
  for (const bool is_name : {true, false}) {
    for (const int mutation : {0, 1, 2, 3}) {
      Python python(GetParam());
      const std::uint64_t code = python.make_code("f");
      const std::uint64_t field =
          code + (is_name ? python.layout().code_name : python.layout().code_file);
      std::uint64_t text = 0;
      if (mutation == 1) text = 0xdead0000;  // not there
      if (mutation >= 2) text = python.make_str("f");
      if (mutation == 2) python.image().put<std::uint32_t>(text + 32, 1U << 2);  // not compact
      if (mutation == 3) python.image().put<std::uint32_t>(text + 32, 3U << 2 | 1U << 5);  // kind
      python.image().put(field, text);
      EXPECT_FALSE(describe_code(python, code).is_described) << is_name << " " << mutation;
    }
  }
}

TEST_P(InterpreterDescribeTest, CodeWithoutLinesHasItsName) {
  Python python(GetParam());
  const std::uint64_t code = python.make_code("f");
  python.image().put<std::uint64_t>(code + python.layout().code_lines, 0xdead0000);
  const Described described = describe_code(python, code);
  EXPECT_TRUE(described.is_described);
  EXPECT_EQ(described.texts.front(), "f");
  EXPECT_EQ(python.at().announced.text_kind[PROFD_CODE_LINES], PROFD_TEXT_ABSENT);
}

INSTANTIATE_TEST_SUITE_P(Versions, InterpreterDescribeTest,
                         testing::Values(8U, 10U, 11U, 12U, 14U, 15U),
                         [](const auto& minor) { return "Python3" + std::to_string(minor.param); });

TEST(InterpreterAnnouncementTest, OnlyCodeThatWasNotAnnouncedCounts) {
  Python python(11);
  make_two_loops(python);
  const profd_interpreter fresh = python.at();
  (void)python.walk();
  ASSERT_EQ(python.at().unannounced, 3U);
  announced_now.insert(python.at().entries[0].value);
  python.at() = fresh;
  (void)python.walk();
  EXPECT_EQ(python.at().unannounced, 2U);
}

}  // namespace
}  // namespace profd::test
