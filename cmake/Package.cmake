# The Debian package: `make package`.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME profd)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "profd maintainers <profd@example.org>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES TRUE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "CPU profiler of the whole host, always on
profd samples the stacks of every process by perf_event and BPF, cheaply
enough to leave on, and writes one CPU profile for each process in the
gperftools format, which both pprofs open. No rebuild, no restart and no
frame pointers are needed. It keeps the last days on the disk, so that one
can see afterwards why the host was slow.

profctl drives it: sessions, history, and what profd itself costs.")
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "init-system-helpers (>= 1.54~), systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "systemd, libdebuginfod1")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "google-perftools")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/systemd/debian/conffiles
    ${PROJECT_SOURCE_DIR}/systemd/debian/shlibs
    ${PROJECT_SOURCE_DIR}/systemd/debian/triggers
    ${PROJECT_SOURCE_DIR}/systemd/debian/postinst
    ${PROJECT_SOURCE_DIR}/systemd/debian/prerm
    ${PROJECT_SOURCE_DIR}/systemd/debian/postrm)
include(CPack)
