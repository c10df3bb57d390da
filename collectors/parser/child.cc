// The child's side of the parser.

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "collectors/parser/jit_requests.h"
#include "collectors/parser/messages.h"
#include "collectors/parser/parser.h"
#include "collectors/xray/log_result.h"
#include "formats/elf/code_file.h"
#include "formats/php/code_object.h"
#include "formats/php/recognize.h"
#include "formats/python/code_object.h"
#include "formats/python/recognize.h"
#include "formats/symbols/find_code_names.h"

namespace profd {
namespace {

using parser::Operation;
using sandbox::Request;

constexpr std::size_t kMaxAddresses = std::size_t{1} << 20;
constexpr std::uint64_t kMaxArgumentBytes = std::uint64_t{32} << 20;

template <class T>
Result<std::string> encoded(const Result<T>& result) {
  if (!result) return result.error();
  return sandbox::encode(*result);
}

// Carries out a request whose last file, behind at least so many to read, is a sealed memfd with
// its argument.
template <class Argument, class CarryOut>
Result<std::string> with_argument(const std::vector<UniqueFd>& files, CarryOut carry_out,
                                  std::size_t files_to_read = 1) {
  const int memfd = files.size() <= files_to_read ? -1 : files.back().get();
  const auto bytes = sandbox::read_sealed(memfd, kMaxArgumentBytes);
  if (!bytes) return bytes.error();
  const auto argument = sandbox::decode<Argument>(*bytes);
  if (!argument) return argument.error();
  return carry_out(*argument);
}

Result<std::string> find_symbols(int fd, const parser::SymbolRequest& request) {
  if (request.addresses.size() > kMaxAddresses) {
    return fail(ErrorCode::kTooLarge, "too many addresses");
  }
  SymbolBudget budget{.table_bytes = request.table_bytes,
                      .time = std::chrono::nanoseconds(request.time_ns)};
  auto symbols = find_elf_symbols(fd, request.addresses, budget);
  if (!symbols) return symbols.error();
  return sandbox::encode(
      parser::FoundSymbols{.table_bytes_left = budget.table_bytes, .symbols = std::move(*symbols)});
}

// `debug_fd` is -1 where there is no debug file.
Result<std::string> find_names(int fd, int debug_fd, const parser::SymbolRequest& request) {
  SymbolBudget budget{.table_bytes = request.table_bytes,
                      .time = std::chrono::nanoseconds(request.time_ns)};
  auto names = find_code_names(fd, debug_fd, request.addresses, budget);
  if (!names) return names.error();
  return sandbox::encode(parser::FoundCodeNames{.table_bytes_left = budget.table_bytes,
                                                .addresses = std::move(*names)});
}

Result<std::string> match_file(int fd, int debug_fd) {
  const auto match = match_debug_file(fd, debug_fd);
  if (!match) return match.error();
  return sandbox::encode(parser::MatchedDebugFile{*match});
}

Result<std::string> list_functions(int fd) {
  auto functions = list_elf_functions(fd);
  if (!functions) return functions.error();
  return sandbox::encode(parser::FoundSymbols{.symbols = std::move(*functions)});
}

Result<std::string> read_xray_log(int log, int program) {
  const auto result = xray::read_log(log, program);
  if (!result) return result.error();
  return xray::encode(*result);
}

Result<std::string> find_runtime(int fd) {
  const auto file = CodeFile::open(fd);
  if (!file) return file.error();
  const auto python = recognize_python(*file);
  if (!python || python->verdict != RuntimeVerdict::kNone) return encoded(python);
  return encoded(recognize_php(*file));
}

DecodedCode decoded_code(const RawCode& code) {
  if (code.kind == PROFD_RUNTIME_PYTHON) return decode_python_code(code);
  if (code.kind == PROFD_RUNTIME_PHP) return decode_php_code(code);
  return {.name = "?", .file = {}, .lines = {}};
}

Result<std::string> decode_codes(const parser::CodeRequest& request) {
  if (request.codes.size() > parser::kMaxCodesOfRequest) {
    return fail(ErrorCode::kTooLarge, "too many code objects");
  }
  DecodedCodes decoded;
  decoded.reserve(request.codes.size());
  std::size_t lines_left = parser::kMaxLinesOfRequest;
  for (const RawCode& code : request.codes) {
    std::vector<InterpretedLine>& lines = decoded.emplace_back(decoded_code(code)).lines;
    if (lines.size() > lines_left) lines.clear();
    lines_left -= lines.size();
  }
  return sandbox::encode(decoded);
}

Result<std::string> handle(const Request& request, const std::vector<UniqueFd>& files) {
  const int file = files.empty() ? -1 : files[0].get();
  const int second = files.size() < 2 ? -1 : files[1].get();
  switch (static_cast<Operation>(request.operation)) {
    case Operation::kReadUnwindSource:
      return encoded(
          read_unwind_source(file, DigestKey{.words = {request.words[0], request.words[1]}}));
    case Operation::kMakeUnwindTable:
      return make_unwind_table(file, second);
    case Operation::kReadElfSummary:
      return encoded(read_elf_summary(file));
    case Operation::kMatchDebugFile:
      return match_file(file, second);
    case Operation::kFindElfSymbols:
      return with_argument<parser::SymbolRequest>(
          files, [file](const auto& wanted) { return find_symbols(file, wanted); });
    case Operation::kListElfFunctions:
      return list_functions(file);
    case Operation::kFindRuntime:
      return find_runtime(file);
    case Operation::kDecodeCode:
      return with_argument<parser::CodeRequest>(
          files, [](const auto& request_of_codes) { return decode_codes(request_of_codes); }, 0);
    case Operation::kFindXrayProcess:
      return encoded(xray::process_of_log(file));
    case Operation::kReadXrayLog:
      return read_xray_log(file, second);
    case Operation::kReadJitDump:
      return with_argument<JitDumpState>(files, [file](const auto& state) {
        return encoded(parser::read_jitdump_chunk(file, state));
      });
    case Operation::kReadPerfMap:
      return with_argument<PerfMapState>(files, [file](const auto& state) {
        return encoded(parser::read_perf_map_chunk(file, state));
      });
    case Operation::kReadJitCode:
      return with_argument<parser::JitCodeRequest>(
          files, [file](const auto& wanted) { return parser::read_jit_code(file, wanted); });
    case Operation::kReadJitUnwindRows:
      return with_argument<parser::JitUnwindRequest>(files, [file](const auto& wanted) {
        return Result<std::string>(sandbox::encode(parser::read_jit_unwind_rows(file, wanted)));
      });
    case Operation::kFindCodeNames:
      return with_argument<parser::SymbolRequest>(
          files, [file, debug_fd = files.size() < 3 ? -1 : second](const auto& wanted) {
            return find_names(file, debug_fd, wanted);
          });
  }
  return fail(ErrorCode::kInternal, "the parser has no such operation");
}

void run_parser(int socket) { sandbox::serve_requests(socket, &handle); }
void run_user_parser(int socket) {
  sandbox::serve_requests(socket, &handle, parser::kUserParserIdleTime);
}

}  // namespace

const sandbox::ChildKind kParserChild{
    .name = "parser", .process_name = "profd-parser", .run = &run_parser};
const sandbox::ChildKind kUserParserChild{
    .name = "user-parser", .process_name = "profd-parser", .run = &run_user_parser};

}  // namespace profd
