/**
 * The language of all numbers, as the texts are English.
 *
 * `navigator.language` may be no valid tag: Chromium with `LC_ALL=C.UTF-8` says `en-US@posix`, and `Intl` throws.
 */
export const LOCALE = 'en-US'
