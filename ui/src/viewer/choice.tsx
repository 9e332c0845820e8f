const AUTOMATIC = '\0' // no column is called so

interface Props {
  label: string
  value: string | undefined
  options: [value: string, label: string][]
  isOptional?: boolean // may be left to what fits best
  onChoose: (value: string | undefined) => void
}

export function Choice({ label, value, options, isOptional = false, onChoose }: Props) {
  return (
    <label>
      {label}{' '}
      <select
        value={value ?? AUTOMATIC}
        onChange={({ currentTarget: { value } }) => onChoose(value === AUTOMATIC ? undefined : value)}
      >
        {isOptional && <option value={AUTOMATIC}>automatic</option>}
        {options.map(([option, shown]) => (
          <option key={option} value={option}>
            {shown}
          </option>
        ))}
      </select>
    </label>
  )
}
