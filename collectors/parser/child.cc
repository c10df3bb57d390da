// The parser's own side: gives up its rights, then answers requests until the socket is closed.

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <new>
#include <string_view>

#include "collectors/parser/jit_requests.h"
#include "collectors/parser/parser.h"
#include "collectors/parser/results.h"
#include "collectors/sandbox/encoder.h"
#include "collectors/sandbox/packets.h"
#include "collectors/sandbox/privileges.h"
#include "collectors/xray/follower.h"
#include "collectors/xray/log_result.h"
#include "formats/elf/elf_tables.h"

namespace profd {
namespace {

using parser::Answer;
using parser::Operation;
using parser::Request;

constexpr int kSocket = 3;
constexpr std::size_t kMaxAddresses = std::size_t{1} << 20;

Result<std::vector<std::uint64_t>> read_addresses(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail_errno("could not read the addresses");
  const auto count = static_cast<std::size_t>(status.st_size) / sizeof(std::uint64_t);
  if (count > kMaxAddresses) return fail(ErrorCode::kTooLarge, "too many addresses");
  auto addresses = elf::read_table<std::uint64_t>(fd, 0, count);
  if (!addresses) return fail(ErrorCode::kIo, "could not read the addresses");
  return std::move(*addresses);
}

template <class T>
Result<std::string> encoded(const Result<T>& result) {
  if (!result) return result.error();
  return parser::encode(*result);
}

Result<std::string> find_symbols(const Request& request, int fd, int addresses_fd) {
  const auto addresses = read_addresses(addresses_fd);
  if (!addresses) return addresses.error();
  SymbolBudget budget{.table_bytes = request.words[0],
                      .time = std::chrono::nanoseconds(request.words[1])};
  auto symbols = find_elf_symbols(fd, *addresses, budget);
  if (!symbols) return symbols.error();
  return parser::encode(
      parser::FoundSymbols{.table_bytes_left = budget.table_bytes, .symbols = std::move(*symbols)});
}

Result<std::string> list_functions(int fd) {
  auto functions = list_elf_functions(fd);
  if (!functions) return functions.error();
  return parser::encode(parser::FoundSymbols{.symbols = std::move(*functions)});
}

// What a request's second descriptor holds, as its own type.
template <class T>
Result<T> read_argument(int fd, Result<T> (*decode)(std::string_view)) {
  constexpr off_t kMaxArgumentBytes = off_t{32} << 20;
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail_errno("could not read the request");
  if (status.st_size > kMaxArgumentBytes) return fail(ErrorCode::kTooLarge, "a long request");
  const auto bytes = elf::read_table<char>(fd, 0, static_cast<std::size_t>(status.st_size));
  if (!bytes) return fail(ErrorCode::kIo, "could not read the request");
  return decode({bytes->data(), bytes->size()});
}

Result<std::string> read_jitdump_from(int fd, int argument) {
  const auto state = read_argument(argument, &parser::decode_jitdump_state);
  if (!state) return state.error();
  return encoded(parser::read_jitdump_chunk(fd, *state));
}

Result<std::string> read_perf_map_from(int fd, int argument) {
  const auto state = read_argument(argument, &parser::decode_perf_map_state);
  if (!state) return state.error();
  return encoded(parser::read_perf_map_chunk(fd, *state));
}

Result<std::string> read_jit_code(int fd, int argument) {
  const auto request = read_argument(argument, &parser::decode_jit_code_request);
  if (!request) return request.error();
  return parser::read_jit_code(fd, *request);
}

Result<std::string> read_jit_unwind_rows(int fd, int argument) {
  const auto request = read_argument(argument, &parser::decode_jit_unwind_request);
  if (!request) return request.error();
  return parser::encode(parser::read_jit_unwind_rows(fd, *request));
}

Result<std::string> find_xray_process(int log) {
  const auto process = xray::process_of_log(log);
  if (!process) return process.error();
  return parser::Encoder().add(static_cast<std::uint32_t>(*process)).take();
}

Result<std::string> encoded_live(const Result<xray::LiveResult>& result) {
  if (!result) return result.error();
  return xray::encode(*result);
}

Result<std::string> carry_out(const Request& request, const std::vector<UniqueFd>& files) {
  const int file = files.empty() ? -1 : files[0].get();
  const int second = files.size() < 2 ? -1 : files[1].get();
  switch (request.operation) {
    case Operation::kReadUnwindSource:
      return encoded(
          read_unwind_source(file, DigestKey{.words = {request.words[0], request.words[1]}}));
    case Operation::kMakeUnwindTable:
      return make_unwind_table(file, second);
    case Operation::kReadElfSummary:
      return encoded(read_elf_summary(file));
    case Operation::kFindElfSymbols:
      return find_symbols(request, file, second);
    case Operation::kListElfFunctions:
      return list_functions(file);
    case Operation::kReadJitDump:
      return read_jitdump_from(file, second);
    case Operation::kReadPerfMap:
      return read_perf_map_from(file, second);
    case Operation::kReadJitCode:
      return read_jit_code(file, second);
    case Operation::kReadJitUnwindRows:
      return read_jit_unwind_rows(file, second);
    case Operation::kFindXrayProcess:
      return find_xray_process(file);
    case Operation::kReadXrayLog:
      return encoded_live(xray::read_log(file, second));
    case Operation::kStart:
    case Operation::kFollowXray:
      break;
  }
  return fail(ErrorCode::kInternal, "the parser was asked for what it can't do");
}

Result<std::string> carry_out_in_bounds(const Request& request,
                                        const std::vector<UniqueFd>& files) {
  try {
    return carry_out(request, files);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kTooLarge, "the file needs more memory than is allowed");
  }
}

bool send_answer(const Result<std::string>& result) {
  Result<UniqueFd> sealed =
      result ? parser::make_sealed(*result) : Result<UniqueFd>(result.error());
  const Answer answer = sealed ? Answer{} : parser::answer_of(sealed.error());
  const std::string_view bytes(reinterpret_cast<const char*>(&answer), sizeof answer);
  if (!sealed) return parser::send_packet(kSocket, bytes, {});
  const int fd = sealed->get();
  return parser::send_packet(kSocket, bytes, {&fd, 1});
}

// None once the other side is gone, or sends what is no request.
std::optional<Request> next_request(std::vector<UniqueFd>& files) {
  Request request;
  auto received =
      parser::receive_packet(kSocket, {reinterpret_cast<char*>(&request), sizeof request});
  if (!received || received->bytes != sizeof request) return std::nullopt;
  files = std::move(received->descriptors);
  return request;
}

Result<std::string> start(const Request& request) {
  if (request.operation != Operation::kStart) {
    return fail(ErrorCode::kInternal, "the parser was not told its limits");
  }
  if (auto gone =
          drop_privileges({.memory_bytes = request.words[0], .file_bytes = request.words[1]});
      !gone) {
    return gone.error();
  }
  return std::string();
}

}  // namespace

bool is_parser_call(int argc, char** argv) {
  return argc == 2 && std::string_view(argv[1]) == kParserArgument;
}

int run_parser() {
  std::vector<UniqueFd> files;
  auto request = next_request(files);
  if (!request) return 1;
  const Result<std::string> started = start(*request);
  if (!send_answer(started) || !started) return 1;
  while ((request = next_request(files))) {
    if (request->operation == Operation::kFollowXray && files.size() == 2) {
      xray::follow_app(kSocket, std::move(files[0]), std::move(files[1]));
      break;
    }
    if (!send_answer(carry_out_in_bounds(*request, files))) break;
    files.clear();
  }
  // What a program does on its way out may need what is no longer allowed.
  ::_exit(0);
}

}  // namespace profd
