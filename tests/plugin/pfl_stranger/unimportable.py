"""An attack that cannot be imported."""

import a_library_that_is_not_installed

ATTACK = a_library_that_is_not_installed.attack()
