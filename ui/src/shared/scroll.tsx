// A part of a page that scrolls sideways, with a cue: its edge fades where there is more.
import type { ComponentChildren, RefObject } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

/** Sets `data-more` of the element to the sides where it has more than it shows: '', 'left', 'right' or both. */
export function useScrollCue(element: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    const box = element.current
    if (!box) return
    const update = () => {
      const hidden = box.scrollWidth - box.clientWidth
      const sides = [box.scrollLeft > 1 && 'left', hidden - box.scrollLeft > 1 && 'right']
      box.dataset.more = sides.filter(Boolean).join(' ')
    }
    const sizes = new ResizeObserver(update)
    for (const one of [box, ...box.children]) sizes.observe(one)
    box.addEventListener('scroll', update, { passive: true })
    return () => {
      sizes.disconnect()
      box.removeEventListener('scroll', update)
    }
  }, [])
}

interface Props {
  label: string
  role?: 'region' | 'group' // a group, where a page has several with one name
  children: ComponentChildren
}

/** For a table; the keyboard scrolls it. */
export function Scroll({ label, role = 'region', children }: Props) {
  const element = useRef<HTMLDivElement>(null)
  useScrollCue(element)
  return (
    <div class="scroll" ref={element} tabIndex={0} role={role} aria-label={label}>
      {children}
    </div>
  )
}
