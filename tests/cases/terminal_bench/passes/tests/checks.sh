lines=()
check() { # NAME COMMAND...
  if "${@:2}"; then lines+=("PASSED test_outputs.py::$1"); else lines+=("FAILED test_outputs.py::$1 - assert"); fi
}
check test_answer_is_there test -f /app/answer
check test_answer_is_right grep -qx 42 /app/answer
check test_image_has_the_files grep -qx seed /app/seed
check test_tests_run_as_root test "$(id -u)" = 0
check test_in_the_images_folder test "$PWD" = /app
echo "=========== short test summary info ============"
printf '%s\n' "${lines[@]}"
