#include "ctl/commands/fetch_result.h"
#include "ctl/commands/subcommand.h"

namespace profd {
namespace {

class Dump final : public Subcommand {
 public:
  Dump() : Subcommand("dump", "Write the profiles of a session so far; it continues") {}

  void add_options(OptionList& list) override {
    list.operand("SESSION", "The id that 'profctl start' printed", session_);
    add_output(list, "./profd-RESULT, which is printed", output_);
    add_written_list(list, written_);
  }

  Result<int> run(Client& client, const Console& console) override {
    if (auto checked = check_output(output_); !checked) return checked.error();
    const auto result = client.dump(session_);
    if (!result) return result.error();
    return fetch_result(client, *result, output_, written_, console);
  }

 private:
  std::string session_;
  Destination output_;
  WrittenList written_;
};

}  // namespace

std::unique_ptr<Subcommand> make_dump() { return std::make_unique<Dump>(); }

}  // namespace profd
