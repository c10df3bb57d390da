// The command line of profctl: options of the whole program, then one subcommand with options of
// its own.
//
// CLI11 parses it. command_line.cc alone includes CLI11, which takes seconds to compile; everything
// else adds options through OptionList.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/base/result.h"

namespace CLI {
class App;
}

namespace profd {

// Reads the argument of an option into a variable, which must outlive CommandLine::parse(). An
// option with a vector may be given any number of times; giving another one twice is an error.
class Reader {
 public:
  using Function = std::function<Result<void>(const std::string& argument)>;

  template <class T>
  using Parse = Result<T> (*)(const std::string& argument);

  explicit Reader(Function read, bool is_repeatable = false)
      : read_(std::move(read)), is_repeatable_(is_repeatable) {}

  Reader(std::string& out) : Reader(out, as_it_is) {}
  Reader(std::vector<std::string>& out) : Reader(out, as_it_is) {}

  // For the path of a file, which may have any bytes. Any other argument has to be valid UTF-8.
  template <class T>
  static Reader path(T& out) {
    Reader reader(out);
    reader.is_path_ = true;
    return reader;
  }

  template <class T>
  Reader(T& out, Parse<T> parse)
      : Reader(reads(parse, [&out](T value) { out = std::move(value); })) {}

  template <class T>
  Reader(std::vector<T>& out, Parse<T> parse)
      : Reader(reads(parse, [&out](T value) { out.push_back(std::move(value)); }), true) {}

 private:
  friend class OptionList;

  static Result<std::string> as_it_is(const std::string& argument) { return argument; }

  template <class T, class Store>
  static Function reads(Parse<T> parse, Store store) {
    return [parse, store](const std::string& argument) -> Result<void> {
      Result<T> value = parse(argument);
      if (!value) return value.error();
      store(std::move(*value));
      return {};
    };
  }

  Function read_;
  bool is_repeatable_ = false;
  bool is_path_ = false;
};

// The options of one subcommand.
class OptionList {
 public:
  explicit OptionList(CLI::App& app) : app_(app) {}
  OptionList(const OptionList&) = delete;
  OptionList& operator=(const OptionList&) = delete;

  // The options that are added afterwards stand below this heading of the help.
  void heading(const std::string& text) { heading_ = text; }

  // `names` is "-a,--all" or "--all". Sets `out` to `value` when the flag is given.
  void flag(const std::string& names, const std::string& help, bool& out, bool value = true);

  // An option with an argument, which help calls `argument`.
  void option(const std::string& names, const std::string& argument, const std::string& help,
              Reader reader);

  // A required argument without an option.
  void operand(const std::string& name, const std::string& help, Reader reader);

  // The same, which may be absent.
  void optional_operand(const std::string& name, const std::string& help, Reader reader);

  // Accepts "-- COMMAND ARGUMENTS". Without this, "--" is an error.
  void command(std::vector<std::string>& out);

  // Rules are called in their order once all options are read. They are for combinations of
  // options.
  void rule(std::function<Result<void>()> check) { rules_.push_back(std::move(check)); }

  // Whether the option was given, with whatever argument. For rules.
  [[nodiscard]] bool given(const std::string& name) const;

 private:
  friend class CommandLine;

  // What CLI11 calls with the arguments of an option. `option`: "--pid"; empty: of an operand.
  std::function<bool(const std::vector<std::string>&)> callback(Reader reader,
                                                                const std::string& option = {});

  CLI::App& app_;
  std::string heading_ = "Options";
  std::optional<Error> invalid_;  // the first error of a reader
  std::vector<std::string>* command_ = nullptr;
  std::vector<std::function<Result<void>()>> rules_;
};

class CommandLine {
 public:
  struct Parsed {
    std::string subcommand{};
    std::string socket{};
    std::string admin_socket{};  // to be tried first; empty: the user has named a socket
    bool json = false;
    std::optional<std::string> help{};  // the text of --help or --version; the rest is then unset
  };

  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;
  ~CommandLine();

  // `help` is one line. The list lives as long as the CommandLine.
  OptionList& add_subcommand(const std::string& name, const std::string& help);

  // `arguments` are without the name of the program. "help" is --help. Every error is
  // kInvalidArgument.
  Result<Parsed> parse(std::vector<std::string> arguments);

 private:
  Result<void> turn_help_to_option(std::vector<std::string>& arguments) const;
  Result<Parsed> finish(bool has_dashes, std::vector<std::string> command);
  [[nodiscard]] std::string named_subcommand() const;  // empty: none was named
  [[nodiscard]] Error invalid_use(const std::string& what) const;
  [[nodiscard]] Error unexpected_argument() const;
  [[nodiscard]] Error unexpected_operand(const std::vector<std::string>& arguments) const;
  [[nodiscard]] Error unknown_subcommand(const std::string& name) const;
  [[nodiscard]] Error unknown_option(const std::string& option) const;

  std::unique_ptr<CLI::App> app_;
  std::map<std::string, OptionList> subcommands_;
  Parsed parsed_;
};

}  // namespace profd
