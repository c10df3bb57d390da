// False call frame information: it gives a counted reason, limited work, and never an invented
// rule. Without the limits some of these tests would run for hours, and fail by their time limit.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <zlib.h>

#include "formats/base/inflate.h"
#include "formats/base/unique_fd.h"
#include "formats/unwind/cfi_tables.h"
#include "tests/formats/elf/hostile_elf.h"
#include "tests/formats/unwind/find_rule.h"

namespace profd {
namespace {

using test::CfiBytes;
using test::HostileElf;

constexpr std::uint64_t kCode = HostileElf::kCode;

struct Made {
  std::string bytes;
  UnwindTableView view{};

  [[nodiscard]] int kind_at(std::uint64_t offset) const { return find_rule(view, offset).kind; }
  [[nodiscard]] std::int32_t cfa_at(std::uint64_t offset) const {
    const profd_rule rule = find_rule(view, offset);
    return rule.kind == PROFD_RULE_UNKNOWN ? -1 : rule.cfa_offset;
  }
  [[nodiscard]] std::uint32_t lost(CfiLoss loss) const {
    return view.header.lost[static_cast<std::size_t>(loss)];
  }
};

Made table_of(const std::string& file) {
  const UniqueFd fd(::memfd_create("hostile", MFD_CLOEXEC));
  EXPECT_EQ(::pwrite(fd.get(), file.data(), file.size(), 0), static_cast<ssize_t>(file.size()));
  Made made;
  auto encoded = make_unwind_table(fd.get(), -1);
  EXPECT_TRUE(encoded) << encoded.error().message;
  EXPECT_TRUE(read_unwind_source(fd.get(), {{1, 2}}));
  if (encoded) made.bytes = std::move(*encoded);
  auto view = read_unwind_table(made.bytes);
  EXPECT_TRUE(view);
  if (view) made.view = std::move(*view);
  return made;
}

Made table_of_cfi(const std::string& cfi, const std::string& name = ".debug_frame") {
  HostileElf elf;
  elf.add({.name = name, .bytes = cfi});
  return table_of(elf.bytes());
}

std::string repeated(const std::string& what, std::size_t times) {
  std::string all;
  all.reserve(what.size() * times);
  for (std::size_t i = 0; i < times; ++i) all += what;
  return all;
}

std::string cfa_offset(std::uint8_t offset) { return {'\x0e', static_cast<char>(offset)}; }

TEST(HostileCfi, CountsMalformedCfiAndKeepsTheRest) {
  struct Case {
    const char* what;
    std::function<void(CfiBytes&)> add;
    CfiLoss loss;
    std::uint32_t times;
  };
  for (const Case& c : {
           Case{"a CIE pointer into the middle of one", [](auto& b) { b.fde(3, kCode + 64, 16); },
                CfiLoss::kMalformed, 1},
           {"a CIE pointer to itself", [](auto& b) { b.fde(b.size(), kCode + 64, 16); },
            CfiLoss::kMalformed, 1},
           {"a CIE pointer behind the end", [](auto& b) { b.fde(1 << 30, kCode + 64, 16); },
            CfiLoss::kMalformed, 1},
           {"an unknown augmentation",
            [](auto& b) {
              const std::uint32_t cie = b.size();
              b.cie("", "armcc+").fde(cie, kCode + 64, 16);
            },
            CfiLoss::kMalformed, 1},
           {"an endless augmentation",
            [](auto& b) {
              const std::uint32_t cie = b.size();
              b.cie("", std::string(1000, 'z')).fde(cie, kCode + 64, 16);
            },
            CfiLoss::kMalformed, 1},
           {"an FDE that is cut", [](auto& b) { b.u32(8).u32(0).u32(0); }, CfiLoss::kMalformed, 1},
           {"a length beyond the end", [](auto& b) { b.u32(0x1000).u32(0); }, CfiLoss::kMalformed,
            1},
           {"a length of 64 bits beyond the end", [](auto& b) { b.u32(~0U).u64(~0ULL).u32(0); },
            CfiLoss::kMalformed, 1},
           {"code outside", [](auto& b) { b.fde(0, 0x7fff0000, 16); }, CfiLoss::kOutsideCode, 1},
           {"code at 0", [](auto& b) { b.fde(0, 0, 16); }, CfiLoss::kOutsideCode, 1},
           {"code that wraps around", [](auto& b) { b.fde(0, kCode + 64, ~0ULL); },
            CfiLoss::kOutsideCode, 1},
           {"states remembered without end",
            [](auto& b) { b.fde(0, kCode + 64, 16, std::string(1000, '\x0a')); },
            CfiLoss::kOverLimit, 1},
           {"an advance in a CIE",
            [](auto& b) {
              const std::uint32_t cie = b.size();
              b.cie("\x41").fde(cie, kCode + 64, 16);
            },
            CfiLoss::kMalformed, 1},
           {"a CIE of many instructions",
            [](auto& b) {
              const std::uint32_t cie = b.size();
              b.cie(std::string(1000, '\0')).fde(cie, kCode + 64, 16);
            },
            CfiLoss::kMalformed, 1},
           {"the same function again", [](auto& b) { b.fde(0, kCode + 16, 16, cfa_offset(99)); },
            CfiLoss::kOverlap, 1},
       }) {
    CfiBytes cfi;
    cfi.cie().fde(0, kCode + 16, 16, cfa_offset(16));
    c.add(cfi);
    const Made made = table_of_cfi(cfi.str());
    EXPECT_EQ(made.lost(c.loss), c.times) << c.what;
    EXPECT_EQ(made.cfa_at(kCode + 16), 16) << c.what;
    EXPECT_EQ(made.cfa_at(kCode + 31), 16) << c.what;
    EXPECT_EQ(made.kind_at(kCode + 15), PROFD_RULE_UNKNOWN) << c.what;
  }
}

// As a binary search in .eh_frame_hdr would find the functions.
TEST(HostileCfi, EndsEachFunctionWhereTheNextBegins) {
  CfiBytes cfi;
  cfi.cie().fde(0, kCode + 64, 16, cfa_offset(32)).fde(0, kCode, 256, cfa_offset(16));
  const Made made = table_of_cfi(cfi.str());
  EXPECT_EQ(made.lost(CfiLoss::kOverlap), 1U);
  EXPECT_EQ(made.cfa_at(kCode + 63), 16);
  EXPECT_EQ(made.cfa_at(kCode + 64), 32);
  EXPECT_EQ(made.cfa_at(kCode + 79), 32);
}

TEST(HostileCfi, GivesEhFramePrecedenceOverDebugFrame) {
  CfiBytes debug;
  debug.cie().fde(0, kCode, 256, cfa_offset(16));
  debug.fde(0, kCode + 300, 8, cfa_offset(24)).fde(0, kCode + 304, 100, cfa_offset(40));
  CfiBytes eh;  // the ids are 0, and the distance back to the CIE
  eh.u32(16).u32(0).u8(1).text(std::string(1, '\0')).u8(1).u8(0x78).u8(16);
  eh.text("\x0c\x07\x08\x90\x01").text(std::string(2, '\0'));
  eh.u32(22).u32(24).u64(kCode + 100).u64(210).text(cfa_offset(64));
  HostileElf elf;
  elf.add({.name = ".debug_frame", .bytes = debug.str()});
  elf.add({.name = ".eh_frame", .bytes = eh.str()});
  const Made made = table_of(elf.bytes());
  EXPECT_EQ(made.cfa_at(kCode + 99), 16) << "up to where .eh_frame begins";
  EXPECT_EQ(made.cfa_at(kCode + 100), 64);
  EXPECT_EQ(made.cfa_at(kCode + 309), 64);
  EXPECT_NE(made.cfa_at(kCode + 311), 40) << "begins in .eh_frame's";
}

TEST(HostileCfi, DropsRowsBehindTheirFunction) {
  CfiBytes cfi;
  cfi.cie().fde(0, kCode, 16, "\x48" + cfa_offset(16) + "\x48" + cfa_offset(24));
  cfi.fde(0, kCode + 32, 16, cfa_offset(48));
  const Made made = table_of_cfi(cfi.str());
  EXPECT_EQ(made.cfa_at(kCode + 7), 8);
  EXPECT_EQ(made.cfa_at(kCode + 15), 16);
  EXPECT_EQ(made.cfa_at(kCode + 16), 16) << "padding";
  EXPECT_EQ(made.cfa_at(kCode + 32), 48);
}

// Many functions that use two CIEs in turn, which have the same slot of the cache.
TEST(HostileCfi, ReadsLongCiesNoMoreThanOnceEach) {
  CfiBytes cfi;
  std::uint32_t cies[2];
  for (std::uint32_t& cie : cies) {
    cie = cfi.size();
    cfi.cie(std::string((std::size_t{2} << 20) + 1024 - 21, '\0'));
  }
  for (std::uint64_t i = 0; i < 300'000; ++i) cfi.fde(cies[i % 2], kCode + i % 4096, 1);
  const Made made = table_of_cfi(cfi.str());
  EXPECT_GE(made.lost(CfiLoss::kMalformed), 300'000U);
}

// With addresses of two bytes, so that more than a million fit.
TEST(HostileCfi, LimitsTheNumberOfFunctions) {
  CfiBytes cfi;
  cfi.u32(18).u32(0).u8(1).text(std::string("zR", 3)).u8(1).u8(0x78).u8(16);
  cfi.u8(1).u8(2).text("\x0c\x07\x08\x90\x01");
  for (std::uint32_t i = 0; i < 1'200'000; ++i) {
    cfi.u32(9).u32(cfi.size()).u8(i & 0xff).u8(0x10 | (i >> 8 & 0xf)).u8(1).u8(0).u8(0);
  }
  const Made made = table_of_cfi(cfi.str(), ".eh_frame");
  EXPECT_EQ(made.lost(CfiLoss::kOverLimit), 1U);
  EXPECT_EQ(made.lost(CfiLoss::kOverlap), (1U << 20) - 4096);
  EXPECT_EQ(made.cfa_at(kCode + 4095), 8);
}

TEST(HostileCfi, StopsAtItsRowsLimit) {
  HostileElf elf(std::string(std::size_t{8} << 20, '\x90'));
  CfiBytes cfi;
  const std::string rows = repeated("\x41" + cfa_offset(16) + "\x41" + cfa_offset(24), 3'500'000);
  cfi.cie().fde(0, kCode, 8 << 20, rows);
  elf.add({.name = ".debug_frame", .bytes = cfi.str()});
  const Made made = table_of(elf.bytes());
  EXPECT_LE(made.view.header.row_count, kMaxTableRows + 2);
  EXPECT_GT(made.lost(CfiLoss::kOverLimit), 0U);
  EXPECT_EQ(made.kind_at(kCode + (8 << 20) - 1), PROFD_RULE_UNKNOWN);
}

TEST(HostileCfi, LimitsTheBytesOfCfi) {
  CfiBytes cfi;
  cfi.cie().fde(0, kCode, 16);
  const Made made = table_of_cfi(cfi.str() + std::string(std::size_t{25} << 20, '\0'));
  EXPECT_EQ(made.lost(CfiLoss::kOverLimit), 1U);
  EXPECT_EQ(made.kind_at(kCode), PROFD_RULE_UNKNOWN);
}

std::string deflated(const std::string& plain) {
  uLongf size = ::compressBound(plain.size());
  std::string packed(size, '\0');
  EXPECT_EQ(::compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                       reinterpret_cast<const Bytef*>(plain.data()), plain.size()),
            Z_OK);
  packed.resize(size);
  return packed;
}

TEST(HostileCfi, StopsInflatingAtItsLimit) {
  const std::string bomb = deflated(std::string(std::size_t{256} << 20, '\0'));
  ASSERT_LT(bomb.size(), std::size_t{1} << 20);
  const std::string says_little =
      CfiBytes().u32(ELFCOMPRESS_ZLIB).u32(0).u64(16).u64(1).str() + bomb;
  HostileElf elf;
  elf.add({.name = ".debug_frame", .bytes = says_little, .flags = SHF_COMPRESSED});
  EXPECT_EQ(table_of(elf.bytes()).lost(CfiLoss::kOverLimit), 1U);
  EXPECT_EQ(inflate_zlib(bomb, 1000).error().code, ErrorCode::kTooLarge);
}

TEST(HostileCfi, RefusesMalformedCompression) {
  const std::string good = deflated(std::string(5000, 'x') + "end");
  EXPECT_EQ(inflate_zlib(good, 5003)->substr(5000), "end");
  EXPECT_FALSE(inflate_zlib(good, 5002));
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    EXPECT_EQ(inflate_zlib(good.substr(0, cut), 9999).error().code, ErrorCode::kMalformed) << cut;
  }
  EXPECT_EQ(inflate_zstd("no zstd at all", 9999).error().code, ErrorCode::kMalformed);
  EXPECT_EQ(inflate_zstd("", 9999).error().code, ErrorCode::kMalformed);
  for (const std::uint32_t type : {0U, 1U, 2U, 3U, ~0U}) {
    HostileElf elf;
    elf.add({.name = ".debug_frame",
             .bytes = CfiBytes().u32(type).u32(0).u64(16).u64(1).text("garbage").str(),
             .flags = SHF_COMPRESSED});
    EXPECT_EQ(table_of(elf.bytes()).lost(CfiLoss::kMalformed), 1U) << type;
  }
}

TEST(HostileCode, LimitsTheNumberOfRecognizedParts) {
  const std::string restorer("\xb8\x0f\0\0\0\x0f\x05\xc3\xc3\xc3", 10);
  const Made made = table_of(HostileElf(repeated(restorer, 1'000'000)).bytes());
  EXPECT_EQ(made.lost(CfiLoss::kOverLimit), 1U);
  EXPECT_LE(made.view.header.row_count, 2U * 65536 + 16);
  EXPECT_EQ(made.kind_at(kCode), PROFD_RULE_SIGNAL);
}

TEST(HostileCode, LimitsTheBytesOfCodeWithoutCfiThatItReads) {
  HostileElf elf;
  std::string file = elf.bytes();
  const std::uint64_t bytes = std::uint64_t{3} << 30;
  file.replace(sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_filesz), 8, CfiBytes().u64(bytes).str());
  file.replace(sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_memsz), 8, CfiBytes().u64(bytes).str());
  const UniqueFd fd(::memfd_create("hostile", MFD_CLOEXEC));
  ASSERT_EQ(::pwrite(fd.get(), file.data(), file.size(), 0), static_cast<ssize_t>(file.size()));
  ASSERT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  const auto encoded = make_unwind_table(fd.get(), -1);
  ASSERT_TRUE(encoded);
  const auto table = read_unwind_table(*encoded);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->header.lost[static_cast<std::size_t>(CfiLoss::kOverLimit)], 1U);
}

// Section names without a terminating NUL.
TEST(HostileElfTest, LimitsTheLengthOfSectionNames) {
  HostileElf elf;
  elf.add({.name = std::string(std::size_t{1} << 20, 'n'), .bytes = "x"});
  for (int i = 0; i < 60'000; ++i) elf.add({.name = "", .bytes = ""});
  std::string file = elf.bytes();
  Elf64_Ehdr header;
  std::memcpy(&header, file.data(), sizeof header);
  for (std::size_t i = 0; i + 1 < header.e_shnum; ++i) {
    const std::uint32_t name = 8;
    std::memcpy(file.data() + header.e_shoff + i * sizeof(Elf64_Shdr), &name, sizeof name);
  }
  EXPECT_EQ(table_of(file).kind_at(kCode), PROFD_RULE_UNKNOWN);
}

TEST(HostileCfi, RemembersStatesUpToALimit) {
  const auto lost = [](std::size_t states) {
    CfiBytes cfi;
    cfi.cie().fde(0, kCode + 16, 16, std::string(states, '\x0a'));
    return table_of_cfi(cfi.str()).lost(CfiLoss::kOverLimit);
  };
  EXPECT_EQ(lost(64), 0U);
  EXPECT_EQ(lost(65), 1U);
}

}  // namespace
}  // namespace profd
