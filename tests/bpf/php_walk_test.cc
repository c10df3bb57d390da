// The walk over PHP's frames as plain C (bpf/php.h), on images of memory that are made here.
// Offsets are typed from PHP's headers (see php_abi.h for their names).

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/bpf/memory_image.h"

namespace profd::test {
namespace {

constexpr std::uint64_t kPhpObjects = 0x400000;
constexpr std::uint64_t kPhpFrames = 0x7f0000000;  // 64 KiB of them
constexpr std::uint64_t kPhpFrameBytes = 96;
constexpr std::uint32_t kTopCall = 1U << 17;
constexpr std::uint8_t kOfC = 1;
constexpr std::uint8_t kOfPhp = 2;
constexpr std::uint8_t kOfEval = 4;
constexpr std::uint32_t kStringType = 6;

// The place of the file's name differs: 7.3, 8.2 and 8.4.
profd_php_layout php_layout(std::uint16_t file) {
  profd_php_layout layout{};
  layout.frame_function = 24;
  layout.frame_type_info = 40;
  layout.frame_previous = 48;
  layout.frame_bytes = 56;
  layout.function_name = 8;
  layout.function_scope = 16;
  layout.function_file = file;
  layout.function_first_line = static_cast<std::uint16_t>(file + 8);
  layout.function_bytes = static_cast<std::uint16_t>(file + 12);
  layout.class_name = 8;
  layout.string_length = 16;
  layout.string_text = 24;
  layout.opline_line = 24;
  layout.top_call_mask = kTopCall;
  return layout;
}

// A process in a request. Frames are made from their callers on.
class Php {
 public:
  explicit Php(std::uint16_t file = 152) : layout_(php_layout(file)) {
    image_now = &image_;
    announced_now.clear();
    clock_now = 0;
    at_->left_ns = PROFD_MAX_CHAIN_NS;
    at_->clock_ns = 0;
    std::memcpy(at_->layout.words, &layout_, sizeof(layout_));
    at_->runtime.kind = PROFD_RUNTIME_PHP;
    at_->is_first_thread = 1;
    at_->process_hash = 77;
    at_->end = PROFD_CHAIN_FRAME_LIMIT;
    at_->window_low = ~0ULL;
    for (std::uint64_t offset = 0; offset < 0x10000; offset += MemoryImage::kPage) {
      image_.put<char>(kPhpFrames + offset, 0);
    }
  }

  MemoryImage& image() { return image_; }
  profd_interpreter& at() { return *at_; }
  [[nodiscard]] const profd_php_layout& layout() const { return layout_; }

  std::uint64_t allocate(std::uint64_t bytes) {
    const std::uint64_t address = next_object_;
    next_object_ += (bytes + 15) / 16 * 16;
    image_.put_bytes(address, std::string(bytes, '\0'));
    return address;
  }

  std::uint64_t make_string(const std::string& text, bool is_hashed = true) {
    const std::uint64_t string = allocate(25 + text.size());
    std::uint64_t hash = 5381;
    for (const char c : text) hash = hash * 33 + static_cast<unsigned char>(c);
    image_.put<std::uint32_t>(string, 1);
    // Flags lie above the type.
    image_.put<std::uint32_t>(string + 4, 0x50U | kStringType);
    if (is_hashed) image_.put<std::uint64_t>(string + 8, hash);
    image_.put<std::uint64_t>(string + 16, text.size());
    image_.put_bytes(string + 24, text);
    return string;
  }

  std::uint64_t make_class(const std::string& name) {
    const std::uint64_t of_class = allocate(64);
    image_.put(of_class + 8, make_string(name));
    return of_class;
  }

  std::uint64_t make_function(const std::string& name, std::uint8_t type = kOfPhp,
                              std::uint32_t line = 7, const std::string& file = "/srv/a.php") {
    const std::uint64_t function = allocate(256);
    image_.put(function, type);
    if (!name.empty()) image_.put(function + 8, make_string(name));
    if (type != kOfC) {
      image_.put(function + layout_.function_file, make_string(file));
      image_.put(function + layout_.function_first_line, line);
    } else {
      // What a function of C has there is something else.
      image_.put<std::uint64_t>(function + layout_.function_file, 0x123456789);
      image_.put<std::uint32_t>(function + layout_.function_first_line, 99);
    }
    names_[function] = name.empty() ? "{main}" : name;
    return function;
  }

  std::uint64_t make_opline(std::uint32_t line) {
    const std::uint64_t opline = allocate(32);
    image_.put(opline + 24, line);
    return opline;
  }

  // Makes the frame of a call from the frame that was made last the current one. A line of 0: it
  // has no instruction.
  std::uint64_t call(std::uint64_t function, std::uint32_t line, bool is_top = false) {
    const std::uint64_t frame = next_frame_;
    next_frame_ += kPhpFrameBytes;
    put_frame(frame, function, line == 0 ? 0 : make_opline(line), is_top);
    image_.put(frame + 48, at_->thread);
    at_->thread = frame;
    return frame;
  }

  void put_frame(std::uint64_t frame, std::uint64_t function, std::uint64_t opline, bool is_top) {
    image_.put(frame, opline);
    image_.put(frame + 24, function);
    // The type of `this`, and flags of the call.
    image_.put<std::uint32_t>(frame + 40, 8U | 1U << 16 | (is_top ? kTopCall : 0U));
  }

  profd_begin begin() { return static_cast<profd_begin>(profd_php_begin(at_.get())); }

  // "f+3 g |": names and lines, leaf first.
  std::string walk() {
    const profd_begin verdict = begin();
    if (verdict != PROFD_BEGIN_DONE) return "begin " + std::to_string(verdict);
    take_steps();
    return text();
  }

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
        EXPECT_EQ(entry.value, 0U);
        continue;
      }
      const auto name = names.find(entry.value);
      out << (name == names.end() ? "?" : name->second);
      if (entry.position != PROFD_NO_POSITION) out << '+' << entry.position;
    }
    return out.str();
  }

  // The id of a function, as the leaf of a walk of its own.
  std::uint64_t id_of(std::uint64_t function) {
    const profd_interpreter fresh = *at_;
    call(function, 1);
    EXPECT_EQ(begin(), PROFD_BEGIN_DONE);
    take_steps();
    const std::uint64_t id = at_->entry_count == 0 ? 0 : at_->entries[0].value;
    *at_ = fresh;
    clock_now = 0;
    return id;
  }

 private:
  void take_steps() {
    for (std::size_t i = 0; i <= PROFD_MAX_INTERPRETED_ENTRIES; ++i) {
      if (profd_php_step(at_.get()) != 0) break;
    }
  }

  profd_php_layout layout_;
  MemoryImage image_;
  std::unique_ptr<profd_interpreter> at_ = std::make_unique<profd_interpreter>();
  std::map<std::uint64_t, std::string> names_;
  std::uint64_t next_object_ = kPhpObjects;
  std::uint64_t next_frame_ = kPhpFrames + 0x1000;
};

class PhpWalkTest : public testing::TestWithParam<std::uint16_t> {};

// {main} calls f, f calls usort, which calls a closure in a loop of its own, which calls strlen.
// Finds: a wrong field, a segment that ends at a function of C, or not at PHP's first one.
TEST_P(PhpWalkTest, HasTheFramesAndTheSegments) {
  Php php(GetParam());
  php.call(php.make_function("", kOfPhp, 1), 3, true);
  php.call(php.make_function("f"), 8);
  php.call(php.make_function("usort", kOfC), 0);
  php.call(php.make_function("{closure}"), 12, true);
  php.call(php.make_function("strlen", kOfC), 0);
  EXPECT_EQ(php.walk(), "strlen {closure}+12 | usort f+8 {main}+3 |");
  EXPECT_EQ(php.at().end, PROFD_CHAIN_COMPLETE);
  EXPECT_EQ(php.at().unannounced, 5U);
}

INSTANTIATE_TEST_SUITE_P(Files, PhpWalkTest,
                         testing::Values(std::uint16_t{128}, std::uint16_t{152},
                                         std::uint16_t{168}));

TEST(PhpFrameTest, AFunctionOfCThatCCalledEndsNoSegment) {
  Php php;
  php.call(php.make_function(""), 3, true);
  php.call(php.make_function("array_map", kOfC), 0);
  php.call(php.make_function("strtolower", kOfC), 0, true);
  EXPECT_EQ(php.walk(), "strtolower array_map {main}+3 |");
}

TEST(PhpFrameTest, EvaluatedCodeIsPhpToo) {
  Php php;
  php.call(php.make_function(""), 3, true);
  php.call(php.make_function("", kOfEval, 1, "/srv/a.php(3) : eval()'d code"), 2);
  EXPECT_EQ(php.walk(), "{main}+2 {main}+3 |");
}

// They have the flags of their caller.
TEST(PhpFrameTest, AFrameWithoutAFunctionIsPassed) {
  for (const bool is_top : {false, true}) {
    Php php;
    php.call(php.make_function(""), 3, true);
    php.call(0, 0, is_top);
    php.call(php.make_function("f"), 5, true);
    EXPECT_EQ(php.walk(), "f+5 | {main}+3 |");
    EXPECT_EQ(php.at().end, PROFD_CHAIN_COMPLETE);
  }
}

TEST(PhpFrameTest, TheFirstFrameOfAFiberEndsTheChain) {
  Php php;
  php.call(php.make_function(""), 3, true);
  php.call(php.make_function("", kOfC), 0);
  php.call(php.make_function("f"), 5, true);
  EXPECT_EQ(php.walk(), "f+5 |");
  EXPECT_EQ(php.at().end, PROFD_CHAIN_COMPLETE);
}

TEST(PhpFrameTest, OnlyTheFirstThreadRunsPhp) {
  Php php;
  php.call(php.make_function("f"), 5, true);
  php.at().is_first_thread = 0;
  EXPECT_EQ(php.begin(), PROFD_BEGIN_NO_THREAD_STATE);
}

TEST(PhpFrameTest, AnInstructionThatCannotBeReadHasNoLine) {
  Php php;
  php.call(php.make_function(""), 3, true);
  const std::uint64_t frame = php.call(php.make_function("f"), 5);
  php.image().put<std::uint64_t>(frame, 0xdead0000);
  EXPECT_EQ(php.walk(), "f {main}+3 |");
  EXPECT_EQ(php.at().failed_reads, 1U);
}

TEST(PhpFrameTest, LinesThatSamplesCannotHaveAreNone) {
  for (const auto& [line, text] : std::map<std::uint32_t, std::string>{
           {1U, "f+1"}, {(1U << 24) - 2, "f+16777214"}, {(1U << 24) - 1, "f"}, {~0U, "f"}}) {
    Php php;
    php.call(php.make_function("f"), line);
    EXPECT_EQ(php.walk(), text);
  }
}

TEST(PhpHostileTest, WhatIsNoFunctionEndsTheChain) {
  for (const unsigned type : {0U, 3U, 5U, 255U}) {
    Php php;
    const std::uint64_t function = php.make_function("g");
    php.image().put(function, static_cast<std::uint8_t>(type));
    php.call(function, 3, true);
    php.call(php.make_function("f"), 5);
    EXPECT_EQ(php.walk(), "f+5");
    EXPECT_EQ(php.at().end, PROFD_CHAIN_NOT_CODE) << type;
  }
}

// Finds: a pointer whose object is not checked.
TEST(PhpHostileTest, WhatIsNoStringEndsTheChain) {
  for (const int mutation : {0, 1, 2, 3, 4, 5, 6}) {
    Php php;
    const std::uint64_t function = php.make_function("g");
    const std::uint64_t of_class = php.make_class("C");
    php.image().put(function + 16, of_class);
    // An array, where the type is one.
    const std::uint64_t array = php.make_string("text");
    php.image().put<std::uint32_t>(array + 4, 7);
    const std::uint64_t file = php.layout().function_file;
    if (mutation == 0) php.image().put(function + 8, array);
    if (mutation == 1) php.image().put(function + file, array);
    if (mutation == 2) php.image().put(of_class + 8, array);
    if (mutation == 3) php.image().put<std::uint64_t>(function + file, 0);
    if (mutation == 4) php.image().put<std::uint64_t>(function + 8, 0xdead0000);
    if (mutation == 5) php.image().put<std::uint64_t>(function + 16, 0xdead0000);
    if (mutation == 6) php.image().put<std::uint64_t>(of_class + 8, ~0ULL - 7);
    php.call(function, 3, true);
    php.call(php.make_function("f"), 5);
    EXPECT_EQ(php.walk(), "f+5") << mutation;
    EXPECT_EQ(php.at().end, mutation < 4 ? PROFD_CHAIN_NOT_CODE : PROFD_CHAIN_UNREADABLE)
        << mutation;
  }
}

TEST(PhpHostileTest, AWildPointerEndsTheChainBehindWhatWasRead) {
  for (const std::uint64_t wild : {std::uint64_t{0xdead0000}, std::uint64_t{8}, ~std::uint64_t{7},
                                   std::uint64_t{0xffffffff81000000}}) {
    for (const std::uint64_t field : {24U, 48U}) {
      Php php;
      php.call(php.make_function("g"), 3, true);
      const std::uint64_t second = php.call(php.make_function("f"), 5);
      const std::uint64_t leaf = php.call(php.make_function("e"), 6);
      php.image().put((field == 24 ? second : leaf) + field, wild);
      EXPECT_EQ(php.walk(), "e+6") << std::hex << wild;
      EXPECT_EQ(php.at().end, PROFD_CHAIN_UNREADABLE) << std::hex << wild;
    }
  }
}

TEST(PhpHostileTest, AFrameAtAnOddAddressEndsTheChain) {
  Php php;
  php.call(php.make_function("f"), 5);
  php.at().thread += 4;
  EXPECT_EQ(php.walk(), "");
  EXPECT_EQ(php.at().end, PROFD_CHAIN_NOT_CODE);
}

TEST(PhpHostileTest, CyclesEndAtALimit) {
  for (const bool has_function : {true, false}) {
    Php php;
    const std::uint64_t function = has_function ? php.make_function("f") : 0;
    const std::uint64_t frame = php.call(function, 0, true);
    php.image().put(frame + 48, frame);
    (void)php.walk();
    EXPECT_EQ(php.at().end, PROFD_CHAIN_FRAME_LIMIT);
    EXPECT_EQ(php.at().frame_count, has_function ? unsigned{PROFD_MAX_INTERPRETED_FRAMES} : 0U);
    EXPECT_LE(php.at().reads, 20U);
  }
}

TEST(PhpHostileTest, FarFramesAndFunctionsAreBoundedByTheClock) {
  Php php;
  for (std::uint64_t i = 0; i < 500; ++i) {
    const std::uint64_t place = 0x60000000 + (i % 2 == 0 ? i : 1000 - i) * 0x10000;
    php.image().put_bytes(place, std::string(64, '\0'));
    php.put_frame(place, php.make_function("f" + std::to_string(i)), php.make_opline(4), false);
    php.image().put(place + 48, php.at().thread);
    php.at().thread = place;
  }
  (void)php.walk();
  EXPECT_EQ(php.at().end, PROFD_CHAIN_FRAME_LIMIT);
  EXPECT_LE(clock_now, PROFD_MAX_CHAIN_NS + PROFD_READS_OF_CLOCK * 200ULL);
  EXPECT_GT(php.at().frame_count, 50U);
}

TEST(PhpReadsTest, FramesThatLieCloseTogetherShareReads) {
  Php php;
  const std::uint64_t function = php.make_function("f");
  std::string expected;
  for (int i = 0; i < 40; ++i) {
    php.call(function, 5, i == 0);
    expected += "f+5 ";
  }
  EXPECT_EQ(php.walk(), expected + "|");
  EXPECT_EQ(php.at().failed_reads, 0U);
  // A line each, the function with its name and file, and six windows for 3,840 bytes.
  EXPECT_LE(php.at().reads, 40U + 3U + 6U);
}

// The memory of one request is used again in the next.
TEST(PhpIdTest, IsThatOfTheTextsAndNotOfTheAddresses) {
  Php php;
  const std::uint64_t id = php.id_of(php.make_function("f"));
  ASSERT_NE(id, 0U);
  EXPECT_EQ(php.id_of(php.make_function("f")), id);

  const std::uint64_t used_again = php.make_function("f");
  php.image().put(used_again + 8, php.make_string("g"));
  EXPECT_NE(php.id_of(used_again), id);
}

// Finds: a field that is not hashed.
TEST(PhpIdTest, ChangesWithAllThatIsAnnounced) {
  Php php;
  std::set<std::uint64_t> ids;
  ids.insert(php.id_of(php.make_function("f")));
  ids.insert(php.id_of(php.make_function("ff")));
  ids.insert(php.id_of(php.make_function("f", kOfPhp, 8)));
  ids.insert(php.id_of(php.make_function("f", kOfPhp, 7, "/srv/b.php")));
  ids.insert(php.id_of(php.make_function("f", kOfEval)));
  ids.insert(php.id_of(php.make_function("f", kOfC)));
  ids.insert(php.id_of(php.make_function("")));
  const std::uint64_t method = php.make_function("f");
  php.image().put(method + 16, php.make_class("A"));
  ids.insert(php.id_of(method));
  php.image().put(method + 16, php.make_class("B"));
  ids.insert(php.id_of(method));
  php.at().process_hash += 1;
  ids.insert(php.id_of(method));
  EXPECT_EQ(ids.size(), 10U);
  EXPECT_FALSE(ids.contains(0));
}

// Texts of one length that PHP has not hashed.
TEST(PhpIdTest, StringsWithoutAHashAreKnownByTheirAddress) {
  Php php;
  const std::uint64_t function = php.make_function("f");
  php.image().put(function + 8, php.make_string("one", false));
  const std::uint64_t id = php.id_of(function);
  php.image().put(function + 8, php.make_string("two", false));
  EXPECT_NE(php.id_of(function), id);
}

struct DescribedPhp {
  bool is_described;
  std::array<std::string, PROFD_CODE_TEXTS> texts;
};

DescribedPhp describe_php(Php& php, std::uint64_t function) {
  profd_interpreter& at = php.at();
  at.text_used = 0;
  at.reads = 0;
  at.failed_reads = 0;
  at.left_ns = ~0ULL;
  at.announced = {};
  DescribedPhp described{.is_described = profd_php_describe(&at, function), .texts = {}};
  std::size_t used = 0;
  for (std::size_t i = 0; i < PROFD_CODE_TEXTS; ++i) {
    described.texts.at(i).assign(at.texts + used, at.announced.text_bytes[i]);
    used += at.announced.text_bytes[i];
  }
  EXPECT_EQ(used, at.text_used);
  return described;
}

using PhpTexts = std::array<std::string, PROFD_CODE_TEXTS>;

TEST(PhpDescribeTest, HasTheTextsInTheirOrder) {
  Php php;
  const std::uint64_t method = php.make_function("run", kOfPhp, 42);
  php.image().put(method + 16, php.make_class(std::string("class@anonymous\0/srv", 20)));
  const DescribedPhp described = describe_php(php, method);
  EXPECT_TRUE(described.is_described);
  EXPECT_EQ(described.texts,
            (PhpTexts{"run", std::string("class@anonymous\0/srv", 20), "/srv/a.php", ""}));
  const profd_interpreted_code& announced = php.at().announced;
  EXPECT_EQ(announced.address, method);
  EXPECT_EQ(announced.first_line, 42U);
  EXPECT_EQ(announced.units, 0U);
  EXPECT_EQ(announced.cut, 0);
  EXPECT_EQ(announced.text_kind[PROFD_CODE_NAME], PROFD_TEXT_BYTES);
  EXPECT_EQ(announced.text_kind[PROFD_CODE_LINES], PROFD_TEXT_ABSENT);
}

TEST(PhpDescribeTest, CodeOutsideOfFunctionsHasNoNameAndFunctionsOfCHaveNoFile) {
  Php php;
  EXPECT_EQ(describe_php(php, php.make_function("")).texts, (PhpTexts{"", "", "/srv/a.php", ""}));
  const DescribedPhp of_c = describe_php(php, php.make_function("strlen", kOfC));
  EXPECT_TRUE(of_c.is_described);
  EXPECT_EQ(of_c.texts, (PhpTexts{"strlen", "", "", ""}));
  EXPECT_EQ(php.at().announced.first_line, 0U);
}

// A function of C may be the last thing on its page.
TEST(PhpDescribeTest, OfAFunctionOfCTheHeadSuffices) {
  Php php;
  constexpr std::uint64_t kEnd = 0x900000;
  php.image().put(kEnd - 32, kOfC);
  php.image().put(kEnd - 32 + 8, php.make_string("last"));
  EXPECT_EQ(describe_php(php, kEnd - 32).texts.front(), "last");
  EXPECT_NE(php.id_of(kEnd - 32), 0U);
  php.image().put(kEnd - 32, kOfPhp);
  EXPECT_FALSE(describe_php(php, kEnd - 32).is_described);
}

TEST(PhpDescribeTest, LongTextsAreCutAndWrongOnesAreNotDescribed) {
  Php php;
  const std::uint64_t function = php.make_function(std::string(600, 'n'), kOfPhp, 1, "f");
  const std::uint64_t file = php.make_string(std::string(600, 'f'));
  php.image().put(file + 16, std::uint64_t{1} << 40);
  php.image().put(function + php.layout().function_file, file);
  const DescribedPhp described = describe_php(php, function);
  EXPECT_TRUE(described.is_described);
  EXPECT_EQ(described.texts.front().size(), std::size_t{PROFD_MAX_CODE_NAME_BYTES});
  EXPECT_EQ(described.texts[PROFD_CODE_FILE].size(), std::size_t{PROFD_MAX_CODE_FILE_BYTES});
  EXPECT_EQ(php.at().announced.cut, 1 << PROFD_CODE_NAME | 1 << PROFD_CODE_FILE);

  php.at().end = PROFD_CHAIN_COMPLETE;
  php.image().put<std::uint64_t>(function + 8, 0xdead0000);
  EXPECT_FALSE(describe_php(php, function).is_described);
  EXPECT_EQ(php.at().end, PROFD_CHAIN_COMPLETE);
}

}  // namespace
}  // namespace profd::test
