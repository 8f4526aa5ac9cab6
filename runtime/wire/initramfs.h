// Names in the initramfs of a virtual machine. The spawner and `atoll vm prepare` write it, and the
// init of the machine reads it.
#pragma once

namespace atl::wire::vm {

inline constexpr const char kInitPath[] = "/init";  // the kernel's choice
inline constexpr const char kExecdPath[] = "/execd";
inline constexpr const char kModulesPath[] = "/modules";
// A file in kModulesPath: a line with the file name of each module, in the order of loading.
inline constexpr const char kModuleOrder[] = "order";

}  // namespace atl::wire::vm
