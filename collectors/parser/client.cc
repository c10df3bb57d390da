#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <utility>

#include "collectors/parser/messages.h"
#include "collectors/parser/parser.h"
#include "collectors/sandbox/packets.h"

namespace profd {
namespace parser {
namespace {

using Clock = std::chrono::steady_clock;

// The children for files of one kind of owners.
struct Children {
  ParserLimits limits;
  sandbox::Spawn spawn;
  std::unique_ptr<sandbox::Client> client{};  // null before the first file
};

class ParserClient final : public Parser {
 public:
  ParserClient(Children roots, Children others)
      : roots_(std::move(roots)), others_(std::move(others)) {}

  Result<void> start() { return start(roots_); }

  Result<UnwindSource> read_unwind_source(int fd, const DigestKey& key) override {
    return decoded<UnwindSource>(
        call(Operation::kReadUnwindSource, {&fd, 1}, {key.words[0], key.words[1]}));
  }
  Result<std::string> make_unwind_table(int fd, int debug_fd) override {
    return call_with_second_file(Operation::kMakeUnwindTable, fd, debug_fd);
  }
  Result<ElfSummary> read_elf_summary(int fd) override {
    return decoded<ElfSummary>(call(Operation::kReadElfSummary, {&fd, 1}));
  }
  Result<DebugFileMatch> match_debug_file(int fd, int debug_fd) override {
    const auto found =
        decoded<MatchedDebugFile>(call_with_second_file(Operation::kMatchDebugFile, fd, debug_fd));
    if (!found) return found.error();
    return found->match;
  }
  Result<std::vector<ElfSymbol>> find_elf_symbols(int fd, std::span<const std::uint64_t> addresses,
                                                  SymbolBudget& budget) override;
  Result<std::vector<ElfSymbol>> list_elf_functions(int fd) override;
  Result<std::vector<AddressNames>> find_code_names(int fd, int debug_fd,
                                                    std::span<const std::uint64_t> addresses,
                                                    SymbolBudget& budget) override;
  Result<FoundRuntime> find_runtime(int fd) override {
    return decoded<FoundRuntime>(call(Operation::kFindRuntime, {&fd, 1}));
  }
  Result<DecodedCodes> decode_code(bool of_root, std::span<const RawCode> codes) override;
  Result<JitDumpChunk> read_jitdump(int fd, const JitDumpState& state) override {
    return decoded_with_text<JitDumpChunk>(call_with(Operation::kReadJitDump, fd, state));
  }
  Result<PerfMapChunk> read_perf_map(int fd, const PerfMapState& state) override {
    return decoded_with_text<PerfMapChunk>(call_with(Operation::kReadPerfMap, fd, state));
  }
  Result<JitCodeAnswers> read_jit_code(int fd, const JitDumpState& state,
                                       std::span<const JitCodeQuery> queries) override;
  Result<JitUnwindAnswers> read_jit_unwind_rows(int fd, const JitDumpState& state,
                                                std::span<const JitUnwindQuery> queries) override;
  Result<std::int32_t> find_xray_process(int log) override {
    return decoded<std::int32_t>(call(Operation::kFindXrayProcess, {&log, 1}));
  }
  Result<UniqueFd> read_xray_log(int log, int program) override;

  [[nodiscard]] pid_t child() const override { return latest_->child(); }
  [[nodiscard]] std::uint64_t restarts() const override {
    return roots_.client->restarts() + (others_.client ? others_.client->restarts() : 0);
  }

 private:
  Result<void> start(Children& children);
  Result<sandbox::Client*> client_for(std::span<const int> files) {
    return client_of(sandbox::are_of_root(files) ? roots_ : others_);
  }
  Result<sandbox::Client*> client_of(Children& children);
  Result<DecodedCodes> decode_part(Children& children, std::span<const RawCode> codes);

  // `argument` is -1 where there is none.
  Result<std::string> call(Operation operation, std::span<const int> files,
                           std::array<std::uint64_t, 2> words = {}, int argument = -1);

  // `second` is -1 where there is no second file.
  Result<std::string> call_with_second_file(Operation operation, int fd, int second) {
    const int files[] = {fd, second};
    return call(operation, std::span(files).first(second >= 0 ? 2 : 1));
  }

  template <class Argument>
  Result<std::string> call_with(Operation operation, int fd, const Argument& argument) {
    return call_with(operation, std::vector<int>{fd}, argument);
  }
  template <class Argument>
  Result<std::string> call_with(Operation operation, const std::vector<int>& files,
                                const Argument& argument) {
    const auto sealed = sandbox::make_sealed(sandbox::encode(argument));
    if (!sealed) return sealed.error();
    return call(operation, files, {}, sealed->get());
  }
  // The time is charged here, since a child that hangs or dies reports none.
  Result<std::string> call_with_budget(Operation operation, const std::vector<int>& files,
                                       std::span<const std::uint64_t> addresses,
                                       SymbolBudget& budget);

  template <class T>
  static Result<T> decoded(const Result<std::string>& bytes) {
    if (!bytes) return bytes.error();
    return sandbox::decode<T>(*bytes);
  }

  template <class T>
  static Result<T> decoded_with_text(Result<std::string> bytes) {
    if (!bytes) return bytes.error();
    return decode_with_text<T>(std::move(*bytes));
  }

  Children roots_;                     // for files of root
  Children others_;                    // for all others
  sandbox::Client* latest_ = nullptr;  // of the latest request
};

Result<void> ParserClient::start(Children& children) {
  auto started =
      sandbox::Client::start(std::string(kParserChild.name), children.limits, children.spawn);
  if (!started) return started.error();
  children.client = std::move(*started);
  latest_ = children.client.get();
  return {};
}

Result<sandbox::Client*> ParserClient::client_of(Children& children) {
  if (!children.client) {
    if (auto started = start(children); !started) return started.error();
  }
  return latest_ = children.client.get();
}

Result<std::string> ParserClient::call(Operation operation, std::span<const int> files,
                                       std::array<std::uint64_t, 2> words, int argument) {
  const auto client = client_for(files);
  if (!client) return client.error();
  std::vector<int> sent(files.begin(), files.end());
  if (argument >= 0) sent.push_back(argument);
  return (*client)->call({.operation = static_cast<std::uint32_t>(operation), .words = words},
                         sent);
}

Result<std::string> ParserClient::call_with_budget(Operation operation,
                                                   const std::vector<int>& files,
                                                   std::span<const std::uint64_t> addresses,
                                                   SymbolBudget& budget) {
  const auto time = std::max(std::chrono::nanoseconds(budget.time), std::chrono::nanoseconds(0));
  const SymbolRequest request{.table_bytes = budget.table_bytes,
                              .time_ns = time.count(),
                              .addresses = {addresses.begin(), addresses.end()}};
  const bool is_limited = !sandbox::are_of_root(files);
  const Clock::time_point started = Clock::now();
  auto answer = call_with(operation, files, request);
  if (is_limited) budget.time -= Clock::now() - started;
  return answer;
}

Result<std::vector<ElfSymbol>> ParserClient::find_elf_symbols(
    int fd, std::span<const std::uint64_t> addresses, SymbolBudget& budget) {
  auto found =
      decoded<FoundSymbols>(call_with_budget(Operation::kFindElfSymbols, {fd}, addresses, budget));
  if (!found) return found.error();
  budget.table_bytes = std::min(budget.table_bytes, found->table_bytes_left);
  return std::move(found->symbols);
}

Result<std::vector<AddressNames>> ParserClient::find_code_names(
    int fd, int debug_fd, std::span<const std::uint64_t> addresses, SymbolBudget& budget) {
  std::vector<int> files{fd};
  if (debug_fd >= 0) files.push_back(debug_fd);
  auto found = decoded<FoundCodeNames>(
      call_with_budget(Operation::kFindCodeNames, files, addresses, budget));
  if (!found) return found.error();
  budget.table_bytes = std::min(budget.table_bytes, found->table_bytes_left);
  if (!std::ranges::equal(found->addresses, addresses, {}, &AddressNames::address)) {
    return fail(ErrorCode::kMalformed, "the parser answered for other addresses than requested");
  }
  return std::move(found->addresses);
}

Result<std::vector<ElfSymbol>> ParserClient::list_elf_functions(int fd) {
  auto found = decoded<FoundSymbols>(call(Operation::kListElfFunctions, {&fd, 1}));
  if (!found) return found.error();
  return std::move(found->symbols);
}

Error wrong_count() {
  return fail(ErrorCode::kMalformed, "the parser answered for other functions than requested");
}

Result<JitCodeAnswers> ParserClient::read_jit_code(int fd, const JitDumpState& state,
                                                   std::span<const JitCodeQuery> queries) {
  const JitCodeRequest request{.state = state, .queries = {queries.begin(), queries.end()}};
  auto answers = decoded_with_text<JitCodeAnswers>(call_with(Operation::kReadJitCode, fd, request));
  if (answers && answers->functions.size() != queries.size()) return wrong_count();
  return answers;
}

Result<JitUnwindAnswers> ParserClient::read_jit_unwind_rows(
    int fd, const JitDumpState& state, std::span<const JitUnwindQuery> queries) {
  const JitUnwindRequest request{.state = state, .queries = {queries.begin(), queries.end()}};
  auto answers = decoded<JitUnwindAnswers>(call_with(Operation::kReadJitUnwindRows, fd, request));
  if (answers && answers->size() != queries.size()) return wrong_count();
  return answers;
}

// So many of the first ones as a request may have.
std::span<const RawCode> codes_of_request(std::span<const RawCode> codes) {
  std::size_t bytes = 0;
  std::size_t count = 0;
  for (const RawCode& code : codes.first(std::min(codes.size(), kMaxCodesOfRequest))) {
    for (const RawText& text : code.texts) bytes += text.bytes.size();
    if (bytes > kMaxCodeTextBytes && count > 0) break;
    ++count;
  }
  return codes.first(count);
}

Result<DecodedCodes> ParserClient::decode_part(Children& children, std::span<const RawCode> codes) {
  const auto sealed =
      sandbox::make_sealed(sandbox::encode(CodeRequest{.codes = {codes.begin(), codes.end()}}));
  if (!sealed) return sealed.error();
  const auto client = client_of(children);
  if (!client) return client.error();
  const int argument = sealed->get();
  auto decoded_codes = decoded<DecodedCodes>((*client)->call(
      {.operation = static_cast<std::uint32_t>(Operation::kDecodeCode), .words = {}},
      {&argument, 1}));
  if (decoded_codes && decoded_codes->size() != codes.size()) return wrong_count();
  return decoded_codes;
}

Result<DecodedCodes> ParserClient::decode_code(bool of_root, std::span<const RawCode> codes) {
  DecodedCodes all;
  all.reserve(codes.size());
  while (all.size() < codes.size()) {
    auto part =
        decode_part(of_root ? roots_ : others_, codes_of_request(codes.subspan(all.size())));
    if (!part) return part.error();
    std::ranges::move(*part, std::back_inserter(all));
  }
  return all;
}

Result<UniqueFd> ParserClient::read_xray_log(int log, int program) {
  const auto bytes = call_with_second_file(Operation::kReadXrayLog, log, program);
  if (!bytes) return bytes.error();
  return sandbox::make_sealed(*bytes);
}

}  // namespace
}  // namespace parser

Result<std::unique_ptr<Parser>> Parser::start(const ParserLimits& limits, sandbox::Spawn spawn) {
  parser::Children roots{.limits = limits, .spawn = spawn};
  parser::Children others{.limits = limits, .spawn = std::move(spawn)};
  if (!roots.spawn) {
    roots.spawn = [](int socket) { return sandbox::spawn_child(kParserChild, socket); };
    others.spawn = [](int socket) { return sandbox::spawn_child(kUserParserChild, socket); };
    others.limits.idle_time = parser::kUserParserIdleTime;
  }
  auto client = std::make_unique<parser::ParserClient>(std::move(roots), std::move(others));
  if (auto started = client->start(); !started) return started.error();
  return std::unique_ptr<Parser>(std::move(client));
}

}  // namespace profd
