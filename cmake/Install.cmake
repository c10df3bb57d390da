# What `make install` and the package put where. Below the prefix, but for the configuration, which profd reads in /etc
# whatever the prefix is.

include(GNUInstallDirs)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY TRUE)  # the Makefile builds first, and what is built is installed
find_program(SCDOC scdoc REQUIRED)
find_program(GZIP gzip REQUIRED)

set(installed_docs ${PROJECT_BINARY_DIR}/docs)
file(MAKE_DIRECTORY ${installed_docs})
set(man_pages)
foreach(page profctl.1 profd.8 profd.toml.5)
  set(source ${PROJECT_SOURCE_DIR}/docs/man/${page}.scd)
  set(page_file ${installed_docs}/${page})
  set(packed ${page_file}.gz)
  add_custom_command(OUTPUT ${packed} DEPENDS ${source} VERBATIM
                     COMMAND sh -c "${SCDOC} <'${source}' >'${page_file}' && ${GZIP} -9n <'${page_file}' >'${packed}'")
  list(APPEND man_pages ${packed})
endforeach()
add_custom_command(OUTPUT ${installed_docs}/changelog.gz DEPENDS ${PROJECT_SOURCE_DIR}/systemd/debian/changelog VERBATIM
                   COMMAND sh -c "${GZIP} -9n <'${PROJECT_SOURCE_DIR}/systemd/debian/changelog' >'${installed_docs}/changelog.gz'")
add_custom_target(docs ALL DEPENDS ${man_pages} ${installed_docs}/changelog.gz)

install(TARGETS profd DESTINATION ${CMAKE_INSTALL_SBINDIR})
install(TARGETS profctl DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS profd_xray profd_xray_static DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES collectors/xray/app/profd_xray.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES systemd/debian/lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME profd)
install(FILES systemd/profd.service systemd/profd.socket systemd/profd-ask.service systemd/profd-ship.service
        DESTINATION lib/systemd/system)
install(FILES systemd/profd.sysusers DESTINATION lib/sysusers.d RENAME profd.conf)
install(FILES systemd/profd.tmpfiles DESTINATION lib/tmpfiles.d RENAME profd.conf)
install(FILES systemd/profd.toml DESTINATION /etc/profd)
install(DIRECTORY DESTINATION /etc/profd/conf.d DIRECTORY_PERMISSIONS
        OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
install(FILES ${installed_docs}/profctl.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${installed_docs}/profd.toml.5.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)
install(FILES ${installed_docs}/profd.8.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man8)
install(FILES ctl/completions/profctl.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME profctl)
install(FILES ctl/completions/profctl.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _profctl)
install(FILES ctl/completions/profctl.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES systemd/debian/copyright ${installed_docs}/changelog.gz docs/api.md docs/jit.md docs/off-cpu.md docs/python.md
              docs/xray.md README.md
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/profd)
install(FILES systemd/ship.toml DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/profd/examples)
