// Making the unwind rows of large libraries, beside libdw, and finding one. Floors: 5 million rows
// a second, 4.5 bytes a row; libLLVM in 0.5 s.

#include <dwarf.h>
#include <fcntl.h>
#include <gelf.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>
#include <elfutils/libdw.h>

#include "formats/base/unique_fd.h"
#include "formats/unwind/cfi_tables.h"

namespace profd {
namespace {

// clang's is there wherever profd is built.
constexpr const char* kLargeLibrary = "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1";
constexpr const char* kSmallLibrary = "/usr/lib/x86_64-linux-gnu/libc.so.6";

void BM_MakeTable(benchmark::State& state, const char* path) {
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  std::uint64_t rows = 0;
  std::size_t bytes = 0;
  for (auto _ : state) {
    const auto encoded = make_unwind_table(fd.get(), -1);
    const auto table =
        encoded ? read_unwind_table(*encoded) : Result<UnwindTableView>(encoded.error());
    if (!table) return state.SkipWithError(table.error().message.c_str());
    rows += table->header.row_count;
    bytes += encoded->size();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(rows));
  state.counters["bytes_per_row"] = static_cast<double>(bytes) / static_cast<double>(rows);
  state.counters["rows"] = static_cast<double>(rows) / static_cast<double>(state.iterations());
}
BENCHMARK_CAPTURE(BM_MakeTable, libLLVM, kLargeLibrary)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_MakeTable, libc, kSmallLibrary)->Unit(benchmark::kMillisecond);

// The first and the last address of an FDE of .eh_frame with pc-relative 32-bit pointers, which GCC
// and clang write.
struct FdeRange {
  Dwarf_Addr start = 0;
  Dwarf_Addr end = 0;
};
FdeRange range_of(const Dwarf_FDE& fde, const Elf_Data& data, Dwarf_Addr section_address) {
  std::int32_t distance = 0;
  std::uint32_t bytes = 0;
  std::memcpy(&distance, fde.start, sizeof distance);
  std::memcpy(&bytes, fde.start + sizeof distance, sizeof bytes);
  const auto field = static_cast<Dwarf_Addr>(fde.start - static_cast<std::uint8_t*>(data.d_buf));
  const Dwarf_Addr start = section_address + field + static_cast<Dwarf_Addr>(distance);
  return {start, start + bytes};
}

// What a table has of a row: the rules of the CFA, the return address, rbp and rbx.
std::uint64_t count_rows(Dwarf_CFI* cfi, const FdeRange& range) {
  std::uint64_t rows = 0;
  for (Dwarf_Addr at = range.start; at < range.end; ++rows) {
    Dwarf_Frame* frame = nullptr;
    if (::dwarf_cfi_addrframe(cfi, at, &frame) != 0) return rows;
    Dwarf_Addr start = 0;
    bool is_signal = false;
    ::dwarf_frame_info(frame, &start, &at, &is_signal);
    Dwarf_Op* operations = nullptr;
    std::size_t count = 0;
    ::dwarf_frame_cfa(frame, &operations, &count);
    for (const int number : {16, 6, 3}) {
      Dwarf_Op memory[3];
      ::dwarf_frame_register(frame, number, memory, &operations, &count);
    }
    std::free(frame);  // NOLINT: libdw's interface
  }
  return rows;
}

std::uint64_t count_rows_with_libdw(int fd) {
  Elf* const elf = ::elf_begin(fd, ELF_C_READ, nullptr);
  Dwarf_CFI* const cfi = ::dwarf_getcfi_elf(elf);
  std::size_t names = 0;
  ::elf_getshdrstrndx(elf, &names);
  Elf_Scn* section = nullptr;
  GElf_Shdr header{};
  while ((section = ::elf_nextscn(elf, section)) != nullptr) {
    ::gelf_getshdr(section, &header);
    if (std::strcmp(::elf_strptr(elf, names, header.sh_name), ".eh_frame") == 0) break;
  }
  Elf_Data* const data = ::elf_getdata(section, nullptr);
  const auto* ident = reinterpret_cast<const unsigned char*>(::elf_getident(elf, nullptr));
  std::uint64_t rows = 0;
  Dwarf_CFI_Entry entry;
  for (Dwarf_Off at = 0, next = 0; ::dwarf_next_cfi(ident, data, true, at, &next, &entry) == 0;
       at = next) {
    if (entry.CIE_id != DW_CIE_ID_64) {
      rows += count_rows(cfi, range_of(entry.fde, *data, header.sh_addr));
    }
  }
  ::dwarf_cfi_end(cfi);
  ::elf_end(elf);
  return rows;
}

// libdw over the same files: it evaluates every row, and makes no table of them.
void BM_ReadRowsWithLibdw(benchmark::State& state, const char* path) {
  ::elf_version(EV_CURRENT);
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  std::uint64_t rows = 0;
  for (auto _ : state) rows += count_rows_with_libdw(fd.get());
  state.SetItemsProcessed(static_cast<std::int64_t>(rows));
}
BENCHMARK_CAPTURE(BM_ReadRowsWithLibdw, libLLVM, kLargeLibrary)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_ReadRowsWithLibdw, libc, kSmallLibrary)->Unit(benchmark::kMillisecond);

void BM_ReadSource(benchmark::State& state, const char* path) {
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  for (auto _ : state) {
    const auto source = read_unwind_source(fd.get(), DigestKey{{1, 2}});
    if (!source) return state.SkipWithError(source.error().message.c_str());
    benchmark::DoNotOptimize(source->digest[0]);
  }
}
BENCHMARK_CAPTURE(BM_ReadSource, libLLVM, kLargeLibrary)->Unit(benchmark::kMillisecond);

void BM_FindRule(benchmark::State& state) {
  const UniqueFd fd(::open(kLargeLibrary, O_RDONLY | O_CLOEXEC));
  const auto encoded = make_unwind_table(fd.get(), -1);
  const auto table =
      encoded ? read_unwind_table(*encoded) : Result<UnwindTableView>(encoded.error());
  if (!table) return state.SkipWithError(table.error().message.c_str());
  std::mt19937_64 random(7);  // NOLINT: the same every time
  std::vector<std::uint64_t> offsets(4096);
  for (std::uint64_t& offset : offsets) offset = 0x1000000 + random() % 0x2000000;
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(find_rule(*table, offsets[next++ % offsets.size()]));
  }
}
BENCHMARK(BM_FindRule);

}  // namespace
}  // namespace profd

BENCHMARK_MAIN();
