#include "ctl/commands/hidden_processes.h"

#include <ostream>

namespace profd {

void say_that_others_are_hidden(const Console& console) {
  console.err << "profctl: only your own processes are shown: root and the group profd see all\n";
}

}  // namespace profd
