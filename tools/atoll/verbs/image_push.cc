#include "tools/atoll/verbs/image_push.h"

#include "runtime/base/sys.h"
#include "tools/atoll/client/child.h"
#include "tools/atoll/client/interrupt.h"

namespace atl::cli {
namespace {

constexpr char kPassingArchive[] = "image.tar";

}  // namespace

Status PushArchive(Api& api, const ArchiveOf& wanted, const RegistryOptions& options) {
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(const Skopeo skopeo, Skopeo::Prepare(options));
  ATOLL_ASSIGN(const UniqueFd archive, skopeo.work().NewFile(kPassingArchive));
  ATOLL_TRY(ReceiveArchive(api, wanted, cancel_fd, [&](std::string_view bytes) {
    return sys::WriteAll(archive.get(), bytes);
  }));
  Child copy =
      skopeo.Command("copy", "dest-",
                     {"--", std::string("docker-archive:") + kPassingArchive,
                      "docker://" + (options.name.empty() ? options.image : options.name)});
  copy.told = true;
  ATOLL_TRY(RunChild(copy, cancel_fd));
  return {};
}

}  // namespace atl::cli
