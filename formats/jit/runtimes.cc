#include "formats/jit/runtimes.h"

#include <algorithm>
#include <array>

namespace profd {
namespace {

constexpr std::string_view kPythonRemedy =
    "python -X perf_jit (3.13 and later) or -X perf (3.12), of a Python with frame pointers";
constexpr std::string_view kRubyRemedy = "ruby --yjit --yjit-perf, for what YJIT compiles";
constexpr std::string_view kPhpRemedy =
    "php -d opcache.jit_debug=32 beside opcache.jit=function and opcache.jit_buffer_size=64M (and "
    "opcache.enable_cli=1 on the command line)";

// A prefix that starts with another one comes before it.
constexpr auto kRuntimes = std::to_array<Runtime>({
    {"Java", "libjvm.so", true,
     "'profctl record --ask-runtime --pid PID' asks a JVM of 17 or later; or java "
     "-agentpath:libperf-jvmti.so; with -XX:+PreserveFramePointer, for whole stacks"},
    {"Node.js", "node", true,
     "node --perf-prof --perf-basic-prof: names at once by the second, lines and code by the "
     "first"},
    {"Deno", "deno", true, "deno run --v8-flags=--perf-prof"},
    {"Bun", "bun", true, "BUN_JSC_useJITDump=1"},
    {".NET", "libcoreclr.so", true, "DOTNET_PerfMapEnabled=1"},
    {"Erlang", "beam.smp", true, "erl +JPperf true, or ERL_FLAGS='+JPperf true'"},
    {"LuaJIT", "luajit", true, ""},
    {"LuaJIT", "libluajit", true, ""},
    {"PHP", "php", false, kPhpRemedy},
    {"PHP", "libphp", false, kPhpRemedy},
    {"PHP", "opcache.so", false, kPhpRemedy},
    {"Python", "python", false, kPythonRemedy},
    {"Python", "libpython", false, kPythonRemedy},
    {"Ruby", "ruby", false, kRubyRemedy},
    {"Ruby", "libruby", false, kRubyRemedy},
    {"Perl", "perl", false, ""},
    {"Perl", "libperl", false, ""},
});

}  // namespace

const Runtime* runtime_of_name(std::string_view name) {
  const auto* const found = std::ranges::find(kRuntimes, name, &Runtime::name);
  return found == kRuntimes.end() ? nullptr : found;
}

const Runtime* runtime_of_file(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const auto* const found = std::ranges::find_if(
      kRuntimes, [name](const Runtime& runtime) { return name.starts_with(runtime.file_prefix); });
  return found == kRuntimes.end() ? nullptr : found;
}

}  // namespace profd
