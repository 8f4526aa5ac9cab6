// Finds the kernelspec of a language in the image, in the order that Jupyter uses.
#pragma once

#include <time.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "execd/core/environment.h"
#include "execd/core/users.h"
#include "runtime/base/result.h"

namespace atl::execd {

struct Kernelspec {
  std::string name;       // name of its directory
  std::string directory;  // {resource_dir}
  std::string language;
  std::vector<std::string> argv;
  Variables env;
  bool interrupt_by_message = false;  // interrupt_mode is "message"; false: SIGINT
  bool knows_ipc = false;             // the kernel supports Unix sockets; false: TCP
};

// Parses a kernel.json. kInvalidArgument: it is no JSON object, or has no argv or language.
Result<Kernelspec> ParseKernelspec(std::string text);

// Returns the directories to search, in this order:
// - JUPYTER_PATH;
// - the user's data directory: JUPYTER_DATA_DIR, XDG_DATA_HOME/jupyter or ~/.local/share/jupyter;
// - share/jupyter beside each bin directory of PATH, which finds those of virtual environments;
// - /usr/local/share/jupyter and /usr/share/jupyter.
std::vector<std::string> KernelspecPaths(const Environment& env, std::string_view home);

// Returns the kernelspec for `language`, compared without case. A kernelspec with that name comes
// first, then the first match by directory and name. Reads at most 256 files, 64 KiB of each, with
// the permissions of `user`. kNotFound: no kernelspec matches; the message lists the languages that
// exist.
Result<Kernelspec> FindKernelspec(std::string_view language, const Environment& env,
                                  std::string_view home, const Identity& user);

// Returns true if the entrypoint may still install kernels: the image is set up for a Jupyter
// server (JUPYTER_HOST), and the entrypoint was started less than a minute ago.
bool KernelsMayCome(const Environment& env, time_t started_at);

}  // namespace atl::execd
