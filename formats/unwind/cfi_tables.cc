#include "formats/unwind/cfi_tables.h"

#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include <sodium/crypto_generichash.h>

#include "formats/elf/debug_link.h"
#include "formats/elf/elf_file.h"
#include "formats/unwind/cfi_functions.h"
#include "formats/unwind/cfi_program.h"
#include "formats/unwind/uncovered_code.h"

namespace profd {
namespace {

// All CFI that is in memory at once. The largest .eh_frame seen, of a browser, has 20 MB.
constexpr std::size_t kMaxCfiBytes = std::size_t{24} << 20;

UnwindRow unknown_from(std::uint64_t offset) { return {offset, profd_rule{}}; }

// Reads the CFI sections within kMaxCfiBytes, and counts those that it can't read.
class CfiLoader {
 public:
  explicit CfiLoader(const CodeSegments& code) : code_(code) {}

  void add_all(const CodeFile& file) {
    add(read_eh_frame(file, bytes_left_));
    add(read_debug_frame(file, bytes_left_));
  }
  void add_debug_file(const CodeFile& file) { add(read_debug_frame(file, bytes_left_)); }

  CfiFunctions& functions() { return functions_; }

 private:
  void add(Result<CfiSection> section) {
    if (section) {
      bytes_left_ -= section->bytes.size();
      functions_.add(std::move(*section), code_);
    } else if (section.error().code == ErrorCode::kTooLarge) {
      count(functions_.losses(), CfiLoss::kOverLimit);
    } else if (section.error().code != ErrorCode::kNotFound) {
      count(functions_.losses(), CfiLoss::kMalformed);
    }
  }

  const CodeSegments& code_;
  CfiFunctions functions_;
  std::size_t bytes_left_ = kMaxCfiBytes;
};

// Visits the code of a file by file offset: functions with an FDE, the rows of code without, and
// the ends of segments.
template <class Visitor>
void visit_code(const CodeFile& file, CfiFunctions& functions, Visitor& visitor) {
  UncoveredCode uncovered(file);
  const std::span<const CfiFunction> all = functions.all();
  auto next = all.begin();
  for (const CodeSegment& segment : file.code().all()) {
    std::uint64_t at = segment.offset;
    const std::uint64_t end = segment.offset + segment.bytes;
    for (; next != all.end() && next->offset < end; ++next) {
      if (next->offset > at) visitor.uncovered(at, uncovered.rows_of(at, next->offset));
      visitor.function(*next);
      at = std::uint64_t{next->offset} + next->bytes;
    }
    if (at < end) visitor.uncovered(at, uncovered.rows_of(at, end));
    visitor.segment_end(end);
  }
  if (uncovered.is_over_limit()) count(functions.losses(), CfiLoss::kOverLimit);
}

// Makes the rows of each function from its FDE.
class RowMaker {
 public:
  RowMaker(CfiFunctions& functions, UnwindTableWriter& writer)
      : functions_(functions), writer_(writer) {}

  void function(const CfiFunction& function) {
    if (writer_.is_full()) return lose(function.offset, CfiLoss::kOverLimit);
    CfiSource& source = functions_.source_file_of(function);
    const auto entry = read_cfi_entry(source.section(), function.position);
    const CfiSource::Cie* cie = entry ? source.cie_at(entry->cie_position) : nullptr;
    const auto fde = cie == nullptr ? std::nullopt : read_fde(source.section(), *entry, cie->cie);
    if (!fde || !cie->initial) return lose(function.offset, CfiLoss::kMalformed);
    run(function, *fde, *cie);
  }

  void uncovered(std::uint64_t /*begin*/, std::span<const UnwindRow> rows) {
    for (const UnwindRow& row : rows) writer_.add(row);
  }

  void segment_end(std::uint64_t offset) { writer_.add(unknown_from(offset)); }

 private:
  // Rows stop at function.bytes: a function may be cut where the next one begins.
  void run(const CfiFunction& function, const CfiFde& fde, const CfiSource::Cie& cie) {
    CfiProgram program(cie.cie, fde, *cie.initial);
    std::optional<CfiLoss> loss;
    for (bool more = true; more;) {
      more = program.advance();
      const std::uint64_t skipped = program.address() - fde.start;
      if (skipped >= function.bytes) break;
      if (program.loss()) return lose(function.offset + skipped, *program.loss());
      const RuleWithLoss result = rule_of(program.state(), cie.cie.is_signal_frame);
      if (result.loss) loss = result.loss;
      writer_.add({function.offset + skipped, result.rule});
    }
    if (loss) count(functions_.losses(), *loss);
  }

  void lose(std::uint64_t offset, CfiLoss loss) {
    writer_.add(unknown_from(offset));
    count(functions_.losses(), loss);
  }

  CfiFunctions& functions_;
  UnwindTableWriter& writer_;
};

// Keyed BLAKE2b of all inputs of the rows: where the code is, all CFI, and the rows of recognized
// code.
class Digest {
 public:
  explicit Digest(const DigestKey& key) {
    static_assert(sizeof key.words >= crypto_generichash_KEYBYTES_MIN);
    ::crypto_generichash_init(&state_, reinterpret_cast<const unsigned char*>(key.words),
                              sizeof key.words, kBytes);
  }

  void function(const CfiFunction& function) { add_value(function); }
  void uncovered(std::uint64_t begin, std::span<const UnwindRow> rows) {
    add_value(begin);
    add_value(rows.size());
    for (const UnwindRow& row : rows) {
      add_value(row.offset);
      add_value(row.rule);
    }
  }
  void segment_end(std::uint64_t offset) { add_value(offset); }

  void add_section(const CfiSection& section) {
    add_value(section.vaddr);
    add_value(section.is_eh_frame);
    add_value(section.has_known_end);
    add_value(section.bytes.size());
    add(section.bytes.data(), section.bytes.size());
  }

  void finish(std::array<std::uint64_t, 2>& digest) {
    static_assert(sizeof digest == kBytes);
    ::crypto_generichash_final(&state_, reinterpret_cast<unsigned char*>(digest.data()), kBytes);
  }

 private:
  static constexpr std::size_t kBytes = 16;

  void add(const void* bytes, std::size_t count) {
    ::crypto_generichash_update(&state_, static_cast<const unsigned char*>(bytes), count);
  }

  // Of types without padding.
  template <class T>
  void add_value(const T& value) {
    static_assert(std::has_unique_object_representations_v<T>);
    add(&value, sizeof value);
  }

  crypto_generichash_state state_{};
};

// A debug file of another build would describe other code.
void add_debug_file(int fd, int debug_fd, CfiLoader& loader) {
  const Result<CodeFile> debug = CodeFile::open(debug_fd);
  const Result<ElfSummary> summary = read_elf_summary(fd);
  const Result<ElfSummary> of_debug = read_elf_summary(debug_fd);
  if (debug && summary && of_debug && summary->build_id == of_debug->build_id) {
    loader.add_debug_file(*debug);
  } else {
    count(loader.functions().losses(), CfiLoss::kMalformed);
  }
}

Result<CodeFile> open_code(int fd) {
  Result<CodeFile> file = CodeFile::open(fd);
  if (file && file->code().all().empty()) {
    return fail(ErrorCode::kUnsupported, "an ELF file without code");
  }
  return file;
}

}  // namespace

Result<UnwindSource> read_unwind_source(int fd, const DigestKey& key) {
  const Result<CodeFile> file = open_code(fd);
  if (!file) return file.error();
  const Result<ElfSummary> summary = read_elf_summary(fd);
  if (!summary) return summary.error();
  CfiLoader loader(file->code());
  loader.add_all(*file);
  UnwindSource source;
  source.build_id = summary->build_id;
  if (auto link = read_debug_link(*file)) {
    source.debug_link = std::move(link->name);
    source.debug_link_crc = link->crc;
  }
  Digest digest(key);
  for (const auto& cfi : loader.functions().sources()) {
    (cfi->section().is_eh_frame ? source.has_eh_frame : source.has_debug_frame) = true;
    digest.add_section(cfi->section());
  }
  visit_code(*file, loader.functions(), digest);
  digest.finish(source.digest);
  return source;
}

Result<std::string> make_unwind_table(int fd, int debug_fd) {
  UnwindTableWriter writer;
  {
    const Result<CodeFile> file = open_code(fd);
    if (!file) return file.error();
    CfiLoader loader(file->code());
    loader.add_all(*file);
    if (debug_fd >= 0) add_debug_file(fd, debug_fd, loader);
    RowMaker maker(loader.functions(), writer);
    visit_code(*file, loader.functions(), maker);
    for (std::size_t i = 0; i < kCfiLossCount; ++i) {
      writer.count_loss(static_cast<CfiLoss>(i), loader.functions().losses()[i]);
    }
  }
  return writer.encode();  // after the CFI has been freed
}

}  // namespace profd
